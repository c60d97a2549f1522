#include "compiler/checkpoint/zip_archive.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/checked_math.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50;
constexpr uint32_t kLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr uint16_t kZip64Extra = 1;
constexpr uint32_t kIn64 = 0xffffffff;  // the number is in the zip64 field
constexpr uint16_t kDescriptor = 8;     // flag: sizes follow the bytes

absl::string_view MethodName(uint16_t method) {
  switch (method) {
    case 8:
      return " (deflate)";
    case 9:
      return " (deflate64)";
    case 12:
      return " (bzip2)";
    case 14:
      return " (lzma)";
    case 93:
      return " (zstd)";
    default:
      return "";
  }
}

// The number at `at`, little-endian; the caller has checked that it is there.
template <typename T>
T Get(absl::string_view s, size_t at) {
  T v;
  std::memcpy(&v, s.data() + at, sizeof(v));
  return v;
}

absl::Status Cut(absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("end of file: ", what, "; the file is cut, copy it again"));
}

// What the end record says, with zip64's numbers where they are needed.
struct End {
  uint64_t entries = 0;
  uint64_t size = 0, offset = 0;  // of the directory
};

absl::Status CheckSame(absl::string_view what, uint64_t small, uint64_t none,
                       uint64_t large) {
  if (small == none || small == large) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("end record: ", what, ": found ", small, ", and ", large,
                   " in the zip64 record; must be the same"));
}

absl::StatusOr<End> ReadEnd(absl::string_view file) {
  // The record ends the file, but for a comment whose length it holds.
  if (file.size() < kEndBytes) return Cut("no end record of a zip");
  size_t at = file.size() - kEndBytes;
  const size_t last = at < 0xffff ? 0 : at - 0xffff;
  while (Get<uint32_t>(file, at) != kEnd ||
         at + kEndBytes + Get<uint16_t>(file, at + 20) != file.size()) {
    if (at == last) return Cut("no end record of a zip");
    --at;
  }
  if (Get<uint16_t>(file, at + 4) != Get<uint16_t>(file, at + 6) ||
      Get<uint16_t>(file, at + 8) != Get<uint16_t>(file, at + 10)) {
    return absl::UnimplementedError(
        "end record: this is a part of a zip of several disks; join them "
        "first");
  }
  End end{Get<uint16_t>(file, at + 10), Get<uint32_t>(file, at + 12),
          Get<uint32_t>(file, at + 16)};
  size_t directory_end = at;
  if (at >= kLocatorBytes &&
      Get<uint32_t>(file, at - kLocatorBytes) == kLocator64) {
    const uint64_t at64 = Get<uint64_t>(file, at - kLocatorBytes + 8);
    if (at64 > at - kLocatorBytes || at - kLocatorBytes - at64 < kEnd64Bytes ||
        Get<uint32_t>(file, at64) != kEnd64) {
      return absl::InvalidArgumentError(
          absl::StrCat("end record: the zip64 record should be at byte ", at64,
                       " and is not; the file is damaged, copy it again"));
    }
    const End large{Get<uint64_t>(file, at64 + 32),
                    Get<uint64_t>(file, at64 + 40),
                    Get<uint64_t>(file, at64 + 48)};
    DS_RETURN_IF_ERROR(
        CheckSame("entries", end.entries, 0xffff, large.entries));
    DS_RETURN_IF_ERROR(
        CheckSame("directory's size", end.size, kIn64, large.size));
    DS_RETURN_IF_ERROR(
        CheckSame("directory's place", end.offset, kIn64, large.offset));
    end = large;
    directory_end = at64;
  }
  if (end.entries > static_cast<uint64_t>(limits::kZipEntries)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("end record: found ", end.entries, " entries; at most ",
                     limits::kZipEntries, " are read"));
  }
  uint64_t sum = 0;
  if (!CheckedAdd(end.offset, end.size, &sum) || sum != directory_end) {
    return absl::InvalidArgumentError(
        absl::StrCat("end record: the directory has ", end.size,
                     " bytes at byte ", end.offset, "; must end at byte ",
                     directory_end, ", where the record begins"));
  }
  return end;
}

// The 64-bit numbers of an entry, in the order of the format.
struct Sizes {
  uint64_t plain, packed, offset;
};

// Replaces the numbers that are kIn64 by those of the zip64 field.
absl::Status ReadExtra(absl::string_view extra, bool with_offset,
                       Sizes* sizes) {
  while (extra.size() >= 4) {
    const uint16_t id = Get<uint16_t>(extra, 0);
    const size_t size = Get<uint16_t>(extra, 2);
    if (size > extra.size() - 4) break;
    absl::string_view body = extra.substr(4, size);
    extra.remove_prefix(4 + size);
    if (id != kZip64Extra) continue;
    for (uint64_t* v : {&sizes->plain, &sizes->packed, &sizes->offset}) {
      if (*v != kIn64 || (v == &sizes->offset && !with_offset)) continue;
      if (body.size() < 8) {
        return absl::InvalidArgumentError(
            "its zip64 field is too short for the numbers that it replaces");
      }
      *v = Get<uint64_t>(body, 0);
      body.remove_prefix(8);
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status CheckName(absl::string_view name) {
  absl::string_view file = name;
  if (absl::EndsWith(file, "/")) file.remove_suffix(1);
  if (!IsSafeRelativePath(file) || absl::StrContains(file, '\\')) {
    return absl::InvalidArgumentError(
        "is no path inside the archive; must be relative, without '..'");
  }
  if (FindBadUtf8(name) != absl::string_view::npos) {
    return absl::InvalidArgumentError("its name is not UTF-8");
  }
  if (name.size() > limits::kTensorNameBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a name of ", name.size(), " bytes; at most ",
                     limits::kTensorNameBytes, " are allowed"));
  }
  return absl::OkStatus();
}

// Fields that the directory and an entry's own header share, from `flags` on.
struct Fields {
  uint16_t flags, method;
  uint32_t crc;
  Sizes sizes;
};

Fields ReadFields(absl::string_view file, size_t at) {
  return {Get<uint16_t>(file, at),
          Get<uint16_t>(file, at + 2),
          Get<uint32_t>(file, at + 8),
          {Get<uint32_t>(file, at + 16), Get<uint32_t>(file, at + 12), 0}};
}

absl::Status CheckFields(const Fields& f) {
  constexpr uint16_t kEncrypted = 1 | 1 << 6 | 1 << 13;
  if (f.flags & kEncrypted) {
    return absl::UnimplementedError("is encrypted; only plain ones are read");
  }
  if (f.method != 0) {
    return absl::UnimplementedError(absl::StrCat(
        "is compressed by method ", f.method, MethodName(f.method),
        "; torch.save stores entries as they are: unpack the archive and zip "
        "it with -0"));
  }
  if (f.sizes.plain != f.sizes.packed) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", f.sizes.packed, " bytes that stand for ",
                     f.sizes.plain, "; a stored entry has as many"));
  }
  return absl::OkStatus();
}

// Checks the entry's own header at `at` against the directory and finds its
// bytes, which must end before `limit`.
absl::Status ReadLocal(absl::string_view file, uint64_t at, uint64_t limit,
                       const Fields& central, ZipEntry* entry) {
  if (at > limit || limit - at < kLocalBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its header is at byte ", at, "; the entries end at byte ", limit));
  }
  if (Get<uint32_t>(file, at) != kLocal) {
    return absl::InvalidArgumentError(
        absl::StrCat("byte ", at, " holds no header of an entry"));
  }
  Fields local = ReadFields(file, at + 6);
  const uint64_t name_bytes = Get<uint16_t>(file, at + 26);
  const uint64_t extra_bytes = Get<uint16_t>(file, at + 28);
  if (limit - at - kLocalBytes < name_bytes + extra_bytes) {
    return absl::InvalidArgumentError("its header ends behind the entries");
  }
  const absl::string_view name = file.substr(at + kLocalBytes, name_bytes);
  DS_RETURN_IF_ERROR(
      ReadExtra(file.substr(at + kLocalBytes + name_bytes, extra_bytes),
                /*with_offset=*/false, &local.sizes));
  // With a descriptor behind the bytes these may be 0 here.
  const bool later = (local.flags & kDescriptor) != 0;
  const auto differ = [&](uint64_t a, uint64_t b) {
    return a != b && !(later && a == 0);
  };
  if (name != entry->name || local.method != central.method ||
      local.flags != central.flags || differ(local.crc, central.crc) ||
      differ(local.sizes.plain, central.sizes.plain) ||
      differ(local.sizes.packed, central.sizes.packed)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its own header at byte ", at, " and the directory differ in ",
        name != entry->name              ? "name"
        : local.method != central.method ? "method"
        : local.flags != central.flags   ? "flags"
        : differ(local.crc, central.crc) ? "checksum"
                                         : "size"));
  }
  entry->offset = at + kLocalBytes + name_bytes + extra_bytes;
  if (entry->size > limit - entry->offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", entry->size, " bytes at byte ", entry->offset,
                     "; the entries end at byte ", limit));
  }
  return absl::OkStatus();
}

// Begin and end of an entry, header included.
struct Extent {
  uint64_t begin, end;
  absl::string_view name;
};

absl::StatusOr<ZipArchive> Read(absl::string_view file) {
  DS_ASSIGN_OR_RETURN(const End end, ReadEnd(file));
  const absl::string_view directory = file.substr(end.offset, end.size);
  ZipArchive archive;
  std::vector<Extent> extents;
  size_t at = 0;
  for (uint64_t i = 0; i < end.entries; ++i) {
    if (directory.size() - at < kCentralBytes ||
        Get<uint32_t>(directory, at) != kCentral) {
      return absl::InvalidArgumentError(
          absl::StrCat("directory: entry ", i,
                       " is not there; the end record counts more"));
    }
    Fields fields = ReadFields(directory, at + 8);
    fields.sizes.offset = Get<uint32_t>(directory, at + 42);
    const size_t name_bytes = Get<uint16_t>(directory, at + 28);
    const size_t extra_bytes = Get<uint16_t>(directory, at + 30);
    const size_t comment_bytes = Get<uint16_t>(directory, at + 32);
    const size_t header = kCentralBytes + name_bytes + extra_bytes;
    if (directory.size() - at - kCentralBytes <
        name_bytes + extra_bytes + comment_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("directory: entry ", i, " ends behind the directory"));
    }
    ZipEntry entry;
    entry.name = directory.substr(at + kCentralBytes, name_bytes);
    const auto where = [&](const absl::Status& s) {
      return Annotate(s, "entry ", Quoted(entry.name));
    };
    DS_RETURN_IF_ERROR(where(CheckName(entry.name)));
    DS_RETURN_IF_ERROR(where(ReadExtra(
        directory.substr(at + kCentralBytes + name_bytes, extra_bytes),
        /*with_offset=*/true, &fields.sizes)));
    DS_RETURN_IF_ERROR(where(CheckFields(fields)));
    entry.size = fields.sizes.plain;
    entry.crc = fields.crc;
    DS_RETURN_IF_ERROR(where(
        ReadLocal(file, fields.sizes.offset, end.offset, fields, &entry)));
    extents.push_back(
        {fields.sizes.offset, entry.offset + entry.size, entry.name});
    if (!absl::EndsWith(entry.name, "/")) archive.entries.push_back(entry);
    at += header + comment_bytes;
  }
  if (at != directory.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "directory: ", directory.size() - at, " bytes follow the last of its ",
        end.entries, " entries; the count is wrong"));
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) {
      return absl::InvalidArgumentError(absl::StrCat(
          "entry ", Quoted(extents[i].name), ": begins inside ",
          Quoted(extents[i - 1].name), "; entries may not overlap"));
    }
  }
  std::sort(
      archive.entries.begin(), archive.entries.end(),
      [](const ZipEntry& a, const ZipEntry& b) { return a.name < b.name; });
  for (size_t i = 1; i < archive.entries.size(); ++i) {
    if (archive.entries[i].name == archive.entries[i - 1].name) {
      return absl::InvalidArgumentError(
          absl::StrCat("entry ", Quoted(archive.entries[i].name),
                       ": is there twice; names must be unique"));
    }
  }
  return archive;
}

uint32_t Crc32(absl::string_view bytes) {
  // Slicing by 4: table k advances a byte by k more bytes.
  static const auto* const kTables = [] {
    auto* tables = new std::array<std::array<uint32_t, 256>, 4>;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      // 0xedb88320: the polynomial of zip, reflected.
      for (int k = 0; k < 8; ++k) c = (c >> 1) ^ (c & 1 ? 0xedb88320u : 0);
      (*tables)[0][i] = c;
    }
    for (int k = 1; k < 4; ++k) {
      for (uint32_t i = 0; i < 256; ++i) {
        const uint32_t before = (*tables)[k - 1][i];
        (*tables)[k][i] = (before >> 8) ^ (*tables)[0][before & 0xff];
      }
    }
    return tables;
  }();
  const auto& t = *kTables;
  uint32_t c = 0xffffffff;
  while (bytes.size() >= 4) {
    c ^= Get<uint32_t>(bytes, 0);
    c = t[3][c & 0xff] ^ t[2][c >> 8 & 0xff] ^ t[1][c >> 16 & 0xff] ^
        t[0][c >> 24];
    bytes.remove_prefix(4);
  }
  for (const char b : bytes) {
    c = (c >> 8) ^ t[0][(c ^ static_cast<uint8_t>(b)) & 0xff];
  }
  return ~c;
}

}  // namespace

const ZipEntry* ZipArchive::Find(absl::string_view name) const {
  const auto it = std::lower_bound(
      entries.begin(), entries.end(), name,
      [](const ZipEntry& e, absl::string_view n) { return e.name < n; });
  return it != entries.end() && it->name == name ? &*it : nullptr;
}

absl::StatusOr<ZipArchive> ReadZip(absl::string_view file,
                                   const std::string& path) {
  auto archive = Read(file);
  if (!archive.ok()) return Annotate(archive.status(), path);
  return archive;
}

absl::Status CheckCrc(absl::string_view file, const std::string& path,
                      const ZipEntry& entry) {
  if (entry.crc == 0) return absl::OkStatus();
  const uint32_t crc = Crc32(file.substr(entry.offset, entry.size));
  if (crc == entry.crc) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "%s: entry %s: its checksum is %08x, its bytes have %08x; the file is "
      "damaged, copy it again",
      path, Quoted(entry.name), entry.crc, crc));
}

}  // namespace deepslice
