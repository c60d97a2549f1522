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

TEST(ImageInput, WhatLiesBetweenTwoBytesIsRoundedAsPillowRoundsIt) {
  // 160.5, by weights that are rounded to 2^-22 below it; 113.5 above it.
  EXPECT_EQ(Reds(Resized(Row({210, 155}), 5, 1, fb::Resample::Bilinear)),
            (std::vector<int>{210, 205, 183, 160, 155}));
  EXPECT_EQ(Reds(Resized(Row({109, 58}), 4, 1, fb::Resample::Bicubic)),
            (std::vector<int>{114, 98, 69, 53}));
}

TEST(ImageInput, CroppedIsTheMiddleAndZerosBeyond) {
  EXPECT_EQ(Reds(Cropped(Row({1, 2, 3, 4, 5}), 3, 1)),
            (std::vector<int>{2, 3, 4}));
  const Picture wide = Cropped(Row({7}), 3, 3);
  EXPECT_EQ(Reds(wide), (std::vector<int>{0, 0, 0, 0, 7, 0, 0, 0, 0}));
}

TEST(ImageFile, WhatIsNoPictureIsRefusedByName) {
  const std::string jpeg("\xff\xd8\xff\xe0", 4);
  for (const std::string& bytes : {std::string(), std::string("GIF89a"),
                                   std::string("\x89PNG\r\n\x1a\n"), jpeg}) {
    const auto got = DecodePicture(bytes, "a.png");
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.status().message().substr(0, 7), "a.png: ");
    EXPECT_EQ(got.status().message().find('\n'), std::string::npos);
  }
}

// A grey JPEG of one block in so many progressive scans, none of which says
// anything: every coefficient by itself, to the half and then whole.
std::string JpegOfScans(int scans) {
  std::string out("\xff\xd8\xff\xdb\x00\x43\x00", 7);  // all steps are 1
  out += std::string(64, 1);
  out +=
      std::string("\xff\xc2\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00", 13);
  for (const char table : {'\x00', '\x10'}) {  // one code, 0, for 0
    out += std::string("\xff\xc4\x00\x14", 4) + table + '\x01' +
           std::string(16, '\0');
  }
  for (int i = 0; i < scans; ++i) {
    const int of = i - 1;  // behind the scan of the mean
    const char k = static_cast<char>(i == 0 ? 0 : of % 63 + 1);
    const char bits = i == 0 ? '\x00' : of < 63 ? '\x01' : '\x10';
    out +=
        std::string("\xff\xda\x00\x08\x01\x01\x00", 7) + k + k + bits + '\x7f';
  }
  return out + "\xff\xd9";
}

TEST(ImageFile, JpegsOfManyScansAreRefused) {
  const auto few = DecodePicture(JpegOfScans(kMostJpegScans), "a.jpg");
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_EQ(few->width, 8);
  EXPECT_EQ(few->rgb, std::vector<uint8_t>(3 * 64, 128));
  const auto many = DecodePicture(JpegOfScans(kMostJpegScans + 1), "a.jpg");
  EXPECT_EQ(many.status().message(),
            "a.jpg: is no JPEG that can be read: more than 100 scans; save it "
            "again");
}

TEST(ImageFile, TheMostPixelsAreTheCallers) {
  EXPECT_TRUE(DecodePicture(JpegOfScans(1), "a.jpg", 64).ok());
  EXPECT_EQ(DecodePicture(JpegOfScans(1), "a.jpg", 63).status().message(),
            "a.jpg: is 8 x 8 pixels; sides of 1 to 16384 and at most 63 pixels "
            "are allowed");
}

}  // namespace
}  // namespace deepslice
