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

bool SizeIsAllowed(const Picture& p, int64_t most_pixels) {
  return p.width >= 1 && p.height >= 1 && p.width <= kMostPictureSide &&
         p.height <= kMostPictureSide && p.width * p.height <= most_pixels;
}

absl::Status BadSize(absl::string_view name, const Picture& p,
                     int64_t most_pixels) {
  return Bad(name, "is ", p.width, " x ", p.height, " pixels; sides of 1 to ",
             kMostPictureSide, " and at most ", most_pixels,
             " pixels are allowed");
}

// What a decoder jumps back with.
struct Failure {
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

// ---- PNG. Not libpng's simplified interface: it applies gamma, which the
// published image processing doesn't.

struct PngSource {
  const char* next;
  size_t left;
};

void ReadPngBytes(png_structp png, png_bytep out, size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->left) png_error(png, "it is cut short");
  std::memcpy(out, source->next, count);
  source->next += count;
  source->left -= count;
}
void JumpOutOfPng(png_structp png, png_const_charp text) {
  auto* failure = static_cast<Failure*>(png_get_error_ptr(png));
  std::snprintf(failure->message, sizeof(failure->message), "%s", text);
  std::longjmp(failure->jump, 1);
}
// What libpng warns of changes no pixel.
void IgnoreWarning(png_structp, png_const_charp) {}

// Of each decoder: what its Run function ends with.
enum class End { kDone, kFailed, kBadSize };

// Plain data only between setjmp and longjmp. `out` has the size where that is
// refused; `raw` comes to hold rows of `channels` bytes a pixel, 4 with alpha.
End RunPng(png_structp png, png_infop info, int64_t most_pixels,
           PngSource* source, Failure* failure, Picture* out,
           std::vector<uint8_t>* raw, int* channels) {
  if (setjmp(failure->jump) != 0) return End::kFailed;
  png_set_read_fn(png, source, ReadPngBytes);
  png_read_info(png, info);
  out->width = png_get_image_width(png, info);
  out->height = png_get_image_height(png, info);
  if (!SizeIsAllowed(*out, most_pixels)) return End::kBadSize;
  const bool alpha =
      (png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA) != 0 ||
      png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  *channels = alpha ? 4 : 3;
  png_set_expand(png);  // palettes, fewer bits than 8, a transparent colour
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const size_t row_bytes = *channels * out->width;
  if (png_get_rowbytes(png, info) != row_bytes) {
    png_error(png, "its rows are of another length than its header says");
  }
  raw->resize(row_bytes * out->height);
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < out->height; ++y) {
      png_read_row(png, raw->data() + y * row_bytes, nullptr);
    }
  }
  return End::kDone;
}

absl::StatusOr<Picture> DecodePng(absl::string_view bytes,
                                  absl::string_view name, int64_t most_pixels) {
  Failure failure;
  failure.message[0] = '\0';
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &failure,
                                           JumpOutOfPng, IgnoreWarning);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  PngSource source{bytes.data(), bytes.size()};
  Picture out;
  std::vector<uint8_t> raw;
  int channels = 3;
  const End end = info == nullptr ? End::kFailed
                                  : RunPng(png, info, most_pixels, &source,
                                           &failure, &out, &raw, &channels);
  png_destroy_read_struct(&png, &info, nullptr);
  if (end == End::kFailed) {
    return Bad(name, "is no PNG that can be read: ", failure.message);
  }
  if (end == End::kBadSize) return BadSize(name, out, most_pixels);
  if (channels == 3) {
    out.rgb = std::move(raw);
    return out;
  }
  // Over white.
  out.rgb.reserve(raw.size() / 4 * 3);
  for (size_t i = 0; i < raw.size(); i += 4) {
    const int alpha = raw[i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int sum = raw[i + c] * alpha + 255 * (255 - alpha);
      out.rgb.push_back(static_cast<uint8_t>((sum + 127) / 255));
    }
  }
  return out;
}

// ---- JPEG

struct JpegErrors {
  jpeg_error_mgr base;
  jpeg_progress_mgr progress;
  Failure failure;
};

void JumpOutOfJpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->failure.message);
  std::longjmp(errors->failure.jump, 1);
}
// A warning is damage, too: the library would go on with grey.
void RefuseWarning(j_common_ptr info, int level) {
  if (level < 0) JumpOutOfJpeg(info);
}

// The library calls it for every row of blocks in every scan.
void RefuseManyScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <=
      kMostJpegScans) {
    return;
  }
  Failure& failure = reinterpret_cast<JpegErrors*>(info->err)->failure;
  std::snprintf(failure.message, sizeof(failure.message),
                "more than %d scans; save it again", kMostJpegScans);
  std::longjmp(failure.jump, 1);
}

// The colour of inks, each as the light that it leaves, over that of black.
uint8_t Through(uint8_t ink, uint8_t black) {
  return static_cast<uint8_t>(black - (black * (255 - ink) + 127) / 255);
}

// Plain data only between setjmp and longjmp. `out` has the size where that is
// refused.
End RunJpeg(absl::string_view bytes, int64_t most_pixels, JpegErrors* errors,
            jpeg_decompress_struct* info, Picture* out) {
  if (setjmp(errors->failure.jump) != 0) return End::kFailed;
  jpeg_create_decompress(info);
  info->progress = &errors->progress;
  jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(bytes.data()),
               bytes.size());
  jpeg_read_header(info, TRUE);
  out->width = info->image_width;
  out->height = info->image_height;
  if (!SizeIsAllowed(*out, most_pixels)) return End::kBadSize;
  const bool inks =
      info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
  info->out_color_space = inks ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(info);
  out->rgb.resize(3 * out->width * out->height);
  JSAMPARRAY four = (*info->mem->alloc_sarray)(
      reinterpret_cast<j_common_ptr>(info), JPOOL_IMAGE, 4 * out->width, 1);
  while (info->output_scanline < info->output_height) {
    JSAMPROW row = out->rgb.data() + 3 * out->width * info->output_scanline;
    if (!inks) {
      jpeg_read_scanlines(info, &row, 1);
      continue;
    }
    jpeg_read_scanlines(info, four, 1);
    for (int64_t x = 0; x < out->width; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        row[3 * x + c] = Through(four[0][4 * x + c], four[0][4 * x + 3]);
      }
    }
  }
  jpeg_finish_decompress(info);
  return End::kDone;
}

absl::StatusOr<Picture> DecodeJpeg(absl::string_view bytes,
                                   absl::string_view name,
                                   int64_t most_pixels) {
  jpeg_decompress_struct info;
  std::memset(&info, 0, sizeof(info));
  JpegErrors errors;
  std::memset(&errors, 0, sizeof(errors));
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = JumpOutOfJpeg;
  errors.base.emit_message = RefuseWarning;
  errors.progress.progress_monitor = RefuseManyScans;
  Picture out;
  const End end = RunJpeg(bytes, most_pixels, &errors, &info, &out);
  jpeg_destroy_decompress(&info);
  if (end == End::kFailed) {
    return Bad(name, "is no JPEG that can be read: ", errors.failure.message);
  }
  if (end == End::kBadSize) return BadSize(name, out, most_pixels);
  return out;
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
