#include "tools/image_input.h"

#include <string>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

Picture Row(std::vector<uint8_t> grey) {
  Picture p;
  p.width = static_cast<int64_t>(grey.size());
  p.height = 1;
  for (const uint8_t v : grey) p.rgb.insert(p.rgb.end(), 3, v);
  return p;
}

std::vector<int> Reds(const Picture& p) {
  std::vector<int> out;
  for (size_t i = 0; i < p.rgb.size(); i += 3) out.push_back(p.rgb[i]);
  return out;
}

TEST(ImageInput, HalvingWeighsTheNeighbours) {
  // Triangles over four pixels, 1/8, 3/8, 3/8, 1/8; what is beyond the border
  // is left out of the sum: (3*0 + 3*80 + 160) / 7, (80 + 3*160 + 3*240) / 7.
  EXPECT_EQ(Reds(Resized(Row({0, 80, 160, 240}), 2, 1, fb::Resample::Bilinear)),
            (std::vector<int>{57, 183}));
}

TEST(ImageInput, CubicsOvershootAndAreCutAtTheEnds) {
  const std::vector<int> got =
      Reds(Resized(Row({0, 0, 255, 255}), 8, 1, fb::Resample::Bicubic));
  EXPECT_EQ(got.front(), 0);
  EXPECT_EQ(got.back(), 255);
  EXPECT_EQ(got[2], 0);    // below 0 before it was cut
  EXPECT_EQ(got[5], 255);  // above 255
  EXPECT_EQ(got[3] + got[4], 255);
}

TEST(ImageInput, CroppedIsTheMiddleAndZerosBeyond) {
  EXPECT_EQ(Reds(Cropped(Row({1, 2, 3, 4, 5}), 3, 1)),
            (std::vector<int>{2, 3, 4}));
  const Picture wide = Cropped(Row({7}), 3, 3);
  EXPECT_EQ(Reds(wide), (std::vector<int>{0, 0, 0, 0, 7, 0, 0, 0, 0}));
}

TEST(ImageFile, WhatIsNoPictureIsRefusedByName) {
  const std::string jpeg("\xff\xd8\xff\xe0", 4);
  for (const std::string& bytes :
       {std::string(), std::string("GIF89a"), std::string("\x89PNG\r\n\x1a\n"),
        jpeg}) {
    const auto got = DecodePicture(bytes, "a.png");
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.status().message().substr(0, 7), "a.png: ");
    EXPECT_EQ(got.status().message().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace deepslice
