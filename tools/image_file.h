// Pictures in files: PNG and JPEG, as red, green and blue bytes.
#ifndef DEEPSLICE_TOOLS_IMAGE_FILE_H_
#define DEEPSLICE_TOOLS_IMAGE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

// The largest side, and the most pixels, of a picture that is read.
inline constexpr int64_t kMostPictureSide = 1 << 14;
inline constexpr int64_t kMostPicturePixels = 1 << 26;

// The most scans of a progressive JPEG: each goes over the whole picture, and
// may take next to no bytes. Encoders make about ten.
inline constexpr int kMostJpegScans = 100;

// Decodes `bytes`; grey becomes three equal channels, what is transparent white,
// of 16 bits the upper 8 stay; gamma and profiles are left alone. The bytes are
// untrusted: InvalidArgument with `name` for what is damaged, cut short, too
// large, or neither PNG nor JPEG.
absl::StatusOr<Picture> DecodePicture(absl::string_view bytes,
                                      absl::string_view name,
                                      int64_t most_pixels = kMostPicturePixels);
absl::StatusOr<Picture> ReadPicture(const std::string& path);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_IMAGE_FILE_H_
