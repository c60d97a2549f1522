// What a picture becomes before a model sees it: resized, cropped, normalised.
#ifndef DEEPSLICE_TOOLS_IMAGE_INPUT_H_
#define DEEPSLICE_TOOLS_IMAGE_INPUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/plan_generated.h"
#include "tools/image_file.h"

namespace deepslice {

// The picture at another size, as Pillow makes it: each side by a filter whose
// support grows with the reduction, rows first, rounded to bytes after each.
Picture Resized(const Picture& picture, int64_t width, int64_t height,
                fb::Resample resample);

// The middle of it; beyond its borders zeros.
Picture Cropped(const Picture& picture, int64_t width, int64_t height);

// [3, size, size] for EncodeImages. FailedPrecondition when what comes of
// resizing and cropping is not the size that the model takes.
absl::StatusOr<std::vector<float>> PixelsOf(const Picture& picture,
                                            const fb::ImageInput& input);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_IMAGE_INPUT_H_
