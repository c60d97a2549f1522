#include "runtime/synthetic_weights.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "schema/base/dtype.h"
#include "schema/encoding.h"
#include "schema/synthetic.h"

namespace deepslice {
namespace {

// Elements that a thread fills before it takes the next part.
constexpr int64_t kPartElements = 1 << 18;

int64_t ColsOf(const fb::Weight& w) {
  return w.shape()->size() == 2 ? w.shape()->Get(1) : 1;
}

template <typename T, typename Round>
void FillRows(const fb::Weight& w, const fb::SyntheticPiece& piece,
              int64_t begin, int64_t end, T* weight, Round round) {
  const int64_t cols = ColsOf(w);
  const float mean = w.synthetic_mean(), scale = w.synthetic_scale();
  for (int64_t i = begin; i < end; ++i) {
    T* out = weight + (piece.first_row() + i * piece.row_step()) * cols;
    for (int64_t j = 0; j < cols; ++j) {
      out[j] = round(mean + scale * SyntheticUnit(piece.tensor(),
                                                  piece.rows_begin() + i,
                                                  piece.cols_begin() + j));
    }
  }
}

}  // namespace

uint64_t WeightMemoryBytes(const fb::Plan& plan) {
  uint64_t end = plan.weights_bytes();
  for (const fb::Weight* w : *plan.weights()) {
    if (w->origin() == fb::WeightOrigin::Synthetic) {
      end = std::max(end, w->offset() + w->bytes());
    }
  }
  return end;
}

void FillSyntheticRows(const fb::Weight& w, const fb::SyntheticPiece& piece,
                       int64_t begin, int64_t end, void* weight) {
  switch (static_cast<Encoding>(w.encoding())) {
    case Encoding::kF32:
      FillRows(w, piece, begin, end, static_cast<float*>(weight),
               [](float x) { return x; });
      break;
    case Encoding::kF16:
      FillRows(w, piece, begin, end, static_cast<uint16_t*>(weight),
               FloatToF16);
      break;
    case Encoding::kBF16:
      FillRows(w, piece, begin, end, static_cast<uint16_t*>(weight),
               [](float x) { return FloatToBF16(x); });
      break;
    default:
      break;  // refused by CheckPlan
  }
}

absl::Status SyntheticMemory::Fill(int threads) {
  absl::call_once(once_, [&] { status_ = FillNow(threads); });
  return status_;
}

const void* SyntheticMemory::data(const fb::Weight& w) const {
  if (memory_ == nullptr) return nullptr;
  return memory_.get() + (w.offset() - plan_.weights_bytes());
}

absl::Status SyntheticMemory::FillNow(int threads) {
  const uint64_t bytes = WeightMemoryBytes(plan_) - plan_.weights_bytes();
  struct sysinfo info;
  const uint64_t have =
      sysinfo(&info) == 0 ? static_cast<uint64_t>(info.totalram) * info.mem_unit
                          : ~uint64_t{0};
  void* memory = MAP_FAILED;
  if (bytes <= have) {
    memory = mmap(nullptr, std::max<uint64_t>(bytes, 1), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the weights of rank ", plan_.rank(), " take ", bytes >> 20,
        " MiB; this machine has ", have >> 20,
        " MiB; compile with more ranks (--tp) or a smaller --dtype"));
  }
  memory_.reset(static_cast<char*>(memory),
                [bytes](char* p) { munmap(p, std::max<uint64_t>(bytes, 1)); });

  struct Part {
    const fb::Weight* weight;
    const fb::SyntheticPiece* piece;
    int64_t begin, end;
  };
  std::vector<Part> parts;
  absl::flat_hash_set<uint64_t> seen;  // tied weights are the same bytes
  for (const fb::Weight* w : *plan_.weights()) {
    if (w->origin() != fb::WeightOrigin::Synthetic || w->bytes() == 0 ||
        !seen.insert(w->offset()).second) {
      continue;
    }
    const int64_t rows =
        std::max<int64_t>(1, kPartElements / std::max<int64_t>(1, ColsOf(*w)));
    for (const fb::SyntheticPiece* piece : *w->pieces()) {
      for (int64_t row = 0; row < piece->rows(); row += rows) {
        parts.push_back({w, piece, row, std::min(piece->rows(), row + rows)});
      }
    }
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (;;) {
      const size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= parts.size()) return;
      const Part& part = parts[i];
      FillSyntheticRows(*part.weight, *part.piece, part.begin, part.end,
                        const_cast<void*>(data(*part.weight)));
    }
  };
  std::vector<std::thread> helpers;
  const size_t wanted = std::min<size_t>(std::max(threads, 1), parts.size());
  for (size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& t : helpers) t.join();
  return absl::OkStatus();
}

}  // namespace deepslice
