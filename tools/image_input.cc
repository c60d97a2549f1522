#include "tools/image_input.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

double Bilinear(double x) {
  x = std::fabs(x);
  return x < 1 ? 1 - x : 0;
}
// Keys' cubic with a = -0.5.
double Bicubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// What each of the new places takes of the old ones. In units of 2^-22, as
// Pillow has it: where a sum lies between two bytes, the last bit decides.
constexpr int kWeightBits = 22;
struct Taps {
  int64_t first = 0;
  std::vector<int64_t> weights;
};

std::vector<Taps> TapsOf(int64_t from, int64_t to, fb::Resample resample) {
  const bool cubic = resample == fb::Resample::Bicubic;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);
  const double support = (cubic ? 2 : 1) * stretch;
  std::vector<Taps> out(to);
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto low =
        static_cast<int64_t>(std::max(0.0, std::floor(center - support + 0.5)));
    const auto high = std::min(
        from, static_cast<int64_t>(std::floor(center + support + 0.5)));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t j = low; j < high; ++j) {
      const double x = (static_cast<double>(j) - center + 0.5) / stretch;
      weights.push_back(cubic ? Bicubic(x) : Bilinear(x));
      sum += weights.back();
    }
    out[i].first = low;
    for (const double w : weights) {
      out[i].weights.push_back(
          std::llround(w / sum * static_cast<double>(1 << kWeightBits)));
    }
  }
  return out;
}

// The byte of a sum of weights times bytes.
uint8_t Rounded(int64_t sum) {
  constexpr int64_t kHalf = int64_t{1} << (kWeightBits - 1);
  return static_cast<uint8_t>(
      std::clamp<int64_t>((sum + kHalf) >> kWeightBits, 0, 255));
}

}  // namespace

Picture Resized(const Picture& p, int64_t width, int64_t height,
                fb::Resample resample) {
  Picture rows{width, p.height, std::vector<uint8_t>(3 * width * p.height)};
  const std::vector<Taps> across = TapsOf(p.width, width, resample);
  for (int64_t y = 0; y < p.height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        int64_t sum = 0;
        const uint8_t* from =
            p.rgb.data() + 3 * (y * p.width + across[x].first) + c;
        for (const int64_t w : across[x].weights) {
          sum += w * *from;
          from += 3;
        }
        rows.rgb[3 * (y * width + x) + c] = Rounded(sum);
      }
    }
  }
  Picture out{width, height, std::vector<uint8_t>(3 * width * height)};
  const std::vector<Taps> down = TapsOf(p.height, height, resample);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t i = 0; i < 3 * width; ++i) {
      int64_t sum = 0;
      const uint8_t* from = rows.rgb.data() + 3 * width * down[y].first + i;
      for (const int64_t w : down[y].weights) {
        sum += w * *from;
        from += 3 * width;
      }
      out.rgb[3 * width * y + i] = Rounded(sum);
    }
  }
  return out;
}

Picture Cropped(const Picture& p, int64_t width, int64_t height) {
  Picture out{width, height, std::vector<uint8_t>(3 * width * height, 0)};
  // Odd pixels are cut off, or come to be, on the right and below.
  const int64_t left = (p.width - width) / 2;
  const int64_t top = (p.height - height) / 2;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const int64_t from_x = x + left, from_y = y + top;
      if (from_x < 0 || from_y < 0 || from_x >= p.width || from_y >= p.height) {
        continue;
      }
      std::copy_n(p.rgb.begin() + 3 * (from_y * p.width + from_x), 3,
                  out.rgb.begin() + 3 * (y * width + x));
    }
  }
  return out;
}

absl::StatusOr<std::vector<float>> PixelsOf(const Picture& picture,
                                            const fb::ImageInput& input) {
  Picture p = picture;
  int64_t width = input.resize_width(), height = input.resize_height();
  if (input.resize_shortest() > 0) {
    const int64_t shortest = input.resize_shortest();
    const int64_t least = std::min(p.width, p.height);
    const auto scaled = [&](int64_t side) {
      return side == least ? shortest : shortest * side / least;
    };
    width = scaled(p.width);
    height = scaled(p.height);
    if (width > kMostPictureSide || height > kMostPictureSide) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a picture of ", p.width, " x ", p.height, " would become ", width,
          " x ", height, "; crop it first"));
    }
  }
  if (width > 0 && height > 0 && (width != p.width || height != p.height)) {
    p = Resized(p, width, height, input.resample());
  }
  if (input.crop_width() > 0 && input.crop_height() > 0) {
    p = Cropped(p, input.crop_width(), input.crop_height());
  }
  const int64_t size = input.size();
  if (p.width != size || p.height != size) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the plan's image processing makes ", p.width, " x ", p.height,
        " of a picture, its model takes ", size, " x ", size,
        "; correct preprocessor_config.json and compile again"));
  }
  std::vector<float> out(3 * size * size);
  for (int64_t c = 0; c < 3; ++c) {
    const float mean = input.mean()->Get(c);
    const float deviation = input.deviation()->Get(c);
    for (int64_t i = 0; i < size * size; ++i) {
      const float value = static_cast<float>(p.rgb[3 * i + c]) * input.scale();
      out[c * size * size + i] = (value - mean) / deviation;
    }
  }
  return out;
}

}  // namespace deepslice
