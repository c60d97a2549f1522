// Pictures for models that take them: how one is resized, then the file.
#include "tests/fuzz/fuzz_target.h"
#include "tools/image_file.h"
#include "tools/image_input.h"

namespace deepslice {
namespace {

// Larger ones are right and slow.
constexpr int64_t kMostPixels = 1 << 14;

FUZZ_TARGET(picture) {
  if (input.empty()) return;
  const auto how = static_cast<uint8_t>(input[0]);
  const auto picture = DecodePicture(input.substr(1), "a.png", kMostPixels);
  if (!picture.ok()) return CheckRefusal(picture.status());
  FUZZ_CHECK(picture->width >= 1 && picture->height >= 1);
  FUZZ_CHECK(picture->width * picture->height <= kMostPixels);
  FUZZ_CHECK(static_cast<int64_t>(picture->rgb.size()) ==
             3 * picture->width * picture->height);

  fb::ImageInputT made;
  made.size = 4 + how % 8;
  made.patch = 1;
  made.resample = how & 16 ? fb::Resample::Bicubic : fb::Resample::Bilinear;
  made.mean = {0.5f, 0.25f, 0};
  made.deviation = {1, 0.5f, 0.25f};
  if (how & 32) {
    made.resize_shortest = 1 + how % 16;
  } else {
    made.resize_width = made.size;
    made.resize_height = how & 64 ? 1 : made.size;
  }
  if (how & 128) made.crop_width = made.crop_height = made.size;
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::ImageInput::Pack(builder, &made));
  const auto pixels = PixelsOf(*picture, *flatbuffers::GetRoot<fb::ImageInput>(
                                             builder.GetBufferPointer()));
  if (!pixels.ok()) return CheckRefusal(pixels.status());
  FUZZ_CHECK(static_cast<int64_t>(pixels->size()) == 3 * made.size * made.size);
  for (const float x : *pixels) FUZZ_CHECK(x > -1 && x < 5);
}

}  // namespace
}  // namespace deepslice
