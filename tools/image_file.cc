#include "tools/image_file.h"

#include <jpeglib.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

template <typename... Text>
absl::Status Bad(absl::string_view name, const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", text...));
}

bool IsSizeAllowed(int64_t width, int64_t height, int64_t most_pixels) {
  return width >= 1 && height >= 1 && width <= kMostPictureSide &&
         height <= kMostPictureSide && width * height <= most_pixels;
}

absl::Status BadSize(absl::string_view name, int64_t width, int64_t height,
                     int64_t most_pixels) {
  return Bad(name, "is ", width, " x ", height, " pixels; sides of 1 to ",
             kMostPictureSide, " and at most ", most_pixels,
             " pixels are allowed");
}

// ---- PNG: libpng's simplified interface, which does not jump ----------------

absl::StatusOr<Picture> DecodePng(absl::string_view bytes,
                                  absl::string_view name, int64_t most_pixels) {
  png_image image;
  std::memset(&image, 0, sizeof(image));
  image.version = PNG_IMAGE_VERSION;
  const auto failed = [&] {
    const std::string why = image.message;
    png_image_free(&image);
    return Bad(name, "is no PNG that can be read: ", why);
  };
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) ==
      0) {
    return failed();
  }
  if (!IsSizeAllowed(image.width, image.height, most_pixels)) {
    png_image_free(&image);
    return BadSize(name, image.width, image.height, most_pixels);
  }
  // With an alpha channel, which is then left out: else libpng would blend.
  const bool alpha = (image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  image.format = alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  std::vector<uint8_t> raw(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, raw.data(), 0, nullptr) == 0) {
    return failed();
  }
  Picture out;
  out.width = image.width;
  out.height = image.height;
  png_image_free(&image);
  if (!alpha) {
    out.rgb = std::move(raw);
    return out;
  }
  out.rgb.reserve(raw.size() / 4 * 3);
  for (size_t i = 0; i + 3 < raw.size(); i += 4) {
    out.rgb.insert(out.rgb.end(), raw.begin() + i, raw.begin() + i + 3);
  }
  return out;
}

// ---- JPEG

struct JpegErrors {
  jpeg_error_mgr base;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];  // what was wrong, after a jump
};

void JumpOut(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}
// A warning is damage, too: the library would go on with grey.
void RefuseWarning(j_common_ptr info, int level) {
  if (level < 0) JumpOut(info);
}

// The library calls it for every row of blocks in every scan.
void RefuseManyScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <=
      kMostJpegScans) {
    return;
  }
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message, sizeof(errors->message),
                "more than %d scans; save it again", kMostJpegScans);
  std::longjmp(errors->jump, 1);
}

enum class JpegEnd { kDone, kFailed, kBadSize };

// Plain data only between setjmp and longjmp. Sets the size whenever the header
// could be read.
JpegEnd RunJpeg(absl::string_view bytes, int64_t most_pixels,
                JpegErrors* errors, jpeg_decompress_struct* info,
                Picture* out) {
  if (setjmp(errors->jump) != 0) return JpegEnd::kFailed;
  jpeg_create_decompress(info);
  info->progress = &errors->progress;
  jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(bytes.data()),
               bytes.size());
  jpeg_read_header(info, TRUE);
  out->width = info->image_width;
  out->height = info->image_height;
  if (!IsSizeAllowed(out->width, out->height, most_pixels)) {
    return JpegEnd::kBadSize;
  }
  info->out_color_space = JCS_RGB;
  jpeg_start_decompress(info);
  out->rgb.resize(3 * out->width * out->height);
  while (info->output_scanline < info->output_height) {
    JSAMPROW row = out->rgb.data() + 3 * out->width * info->output_scanline;
    jpeg_read_scanlines(info, &row, 1);
  }
  jpeg_finish_decompress(info);
  return JpegEnd::kDone;
}

absl::StatusOr<Picture> DecodeJpeg(absl::string_view bytes,
                                   absl::string_view name,
                                   int64_t most_pixels) {
  jpeg_decompress_struct info;
  std::memset(&info, 0, sizeof(info));
  JpegErrors errors;
  std::memset(&errors, 0, sizeof(errors));
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = JumpOut;
  errors.base.emit_message = RefuseWarning;
  errors.progress.progress_monitor = RefuseManyScans;
  Picture out;
  const JpegEnd end = RunJpeg(bytes, most_pixels, &errors, &info, &out);
  jpeg_destroy_decompress(&info);
  switch (end) {
    case JpegEnd::kDone:
      return out;
    case JpegEnd::kBadSize:
      return BadSize(name, out.width, out.height, most_pixels);
    case JpegEnd::kFailed:
      break;
  }
  return Bad(name, "is no JPEG that can be read: ", errors.message);
}

}  // namespace

absl::StatusOr<Picture> DecodePicture(absl::string_view bytes,
                                      absl::string_view name,
                                      int64_t most_pixels) {
  if (absl::StartsWith(bytes, "\x89PNG")) {
    return DecodePng(bytes, name, most_pixels);
  }
  if (absl::StartsWith(bytes, "\xff\xd8")) {
    return DecodeJpeg(bytes, name, most_pixels);
  }
  return Bad(name, "is neither PNG nor JPEG");
}

absl::StatusOr<Picture> ReadPicture(const std::string& path) {
  constexpr int64_t kMostBytes = int64_t{1} << 28;
  DS_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMostBytes));
  return DecodePicture(bytes, path);
}

}  // namespace deepslice
