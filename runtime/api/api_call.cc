#include "runtime/api/api_call.h"

#include <cstdlib>
#include <new>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

// Longer than any message but those that quote a name of a file's.
constexpr size_t kErrorBytes = 4096;
thread_local char last_error[kErrorBytes];

// As one line, whatever the names in it hold; a code point that does not fit
// whole is left out.
void KeepError(absl::string_view message) {
  constexpr char kHex[] = "0123456789abcdef";
  size_t end = 0;
  for (size_t i = 0; i < message.size();) {
    const auto byte = static_cast<unsigned char>(message[i]);
    if (byte == '\n' || byte == '\t') {
      if (end + 2 >= kErrorBytes) break;
      last_error[end++] = '\\';
      last_error[end++] = byte == '\n' ? 'n' : 't';
      ++i;
      continue;
    }
    if (absl::ascii_iscntrl(byte)) {
      if (end + 4 >= kErrorBytes) break;
      last_error[end++] = '\\';
      last_error[end++] = 'x';
      last_error[end++] = kHex[byte >> 4];
      last_error[end++] = kHex[byte & 15];
      ++i;
      continue;
    }
    size_t next = i + 1;
    while (next < message.size() &&
           (static_cast<unsigned char>(message[next]) & 0xC0) == 0x80) {
      ++next;
    }
    if (end + (next - i) >= kErrorBytes) break;
    while (i < next) last_error[end++] = message[i++];
  }
  last_error[end] = '\0';
}

}  // namespace

ds_status CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return static_cast<ds_status>(status.code());
    default:
      return DS_UNKNOWN;
  }
}

ds_status EndCall(const absl::Status& status) noexcept {
  KeepError(status.ok() ? absl::string_view() : status.message());
  return CodeOf(status);
}

ds_status EndCallByException() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    KeepError("out of memory");
    return DS_RESOURCE_EXHAUSTED;
  } catch (const std::system_error&) {  // of std::thread
    KeepError("the system gives no more threads");
    return DS_RESOURCE_EXHAUSTED;
  } catch (const std::exception& e) {
    KeepError(e.what());
  } catch (...) {
    KeepError("ended by an unknown exception");
  }
  return DS_INTERNAL;
}

absl::Status NullArgument(absl::string_view function, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(function, ": ", what, " is NULL"));
}

absl::StatusOr<absl::string_view> TextOf(const ds_text& text,
                                         absl::string_view what) {
  if (text.data != nullptr) {
    return text.size == DS_NUL ? absl::string_view(text.data)
                               : absl::string_view(text.data, text.size);
  }
  if (text.size == 0 || text.size == DS_NUL) return absl::string_view();
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": NULL, with a size of ", text.size, " bytes; give the text"));
}

void* Allocate(size_t bytes) {
  void* memory = std::malloc(std::max<size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

char* CopyText(absl::string_view text) {
  char* copy = static_cast<char*>(Allocate(text.size() + 1));
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

absl::Status BadStructSize(size_t size, size_t least, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": struct_size is ", size, "; at least ", least,
                   " is allowed; fill the struct with its ds_init function"));
}

}  // namespace deepslice

uint32_t ds_api_version(void) noexcept { return DS_API_VERSION; }

const char* ds_version(void) noexcept { return DEEPSLICE_VERSION; }

const char* ds_last_error(void) noexcept { return deepslice::last_error; }

void ds_release(void* memory) noexcept { std::free(memory); }
