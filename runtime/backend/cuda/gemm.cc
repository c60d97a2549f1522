#include "runtime/backend/cuda/gemm.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::StatusOr<int> CudaType(DType t) {
  switch (t) {
    case DType::kF32:
      return kCudaR32F;
    case DType::kF16:
      return kCudaR16F;
    case DType::kBF16:
      return kCudaR16BF;
    default:
      return absl::UnimplementedError(absl::StrCat("a matrix product of ",
                                                   DTypeName(t),
                                                   "; f32, f16 and bf16 are "
                                                   "supported"));
  }
}

const void* Pointer(CUdeviceptr p) { return reinterpret_cast<const void*>(p); }

}  // namespace

std::string GemmShape::Text() const {
  return absl::StrCat(n, "x", k, " ", DTypeName(in), " ", DTypeName(out), " a ",
                      a_stride, " out ", out_stride, " residual ",
                      residual_stride);
}

int GemmClassOf(int64_t m) {
  int c = 0;
  while (c + 1 < kNumGemmClasses && kGemmClasses[c] < m) ++c;
  return c;
}

absl::Status Gemms::Check(CublasStatus status, const Problem& p,
                          int64_t m) const {
  if (status == kCublasSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cuBLASLt, ", m, " rows by ",
                                          p.shape.Text(), ": ",
                                          api_.GetStatusName(status)));
}

absl::StatusOr<std::unique_ptr<Gemms>> Gemms::Create(const CublasLtApi& api,
                                                     CUdeviceptr workspace,
                                                     int64_t workspace_bytes) {
  std::unique_ptr<Gemms> out(new Gemms(api, workspace, workspace_bytes));
  const auto check = [&](CublasStatus s) {
    if (s == kCublasSuccess) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("cuBLASLt does not start: ", api.GetStatusName(s)));
  };
  DS_RETURN_IF_ERROR(check(api.Create(&out->handle_)));
  DS_RETURN_IF_ERROR(check(api.MatmulPreferenceCreate(&out->preference_)));
  const uint64_t most = workspace_bytes;
  DS_RETURN_IF_ERROR(check(api.MatmulPreferenceSetAttribute(
      out->preference_, kMatmulPrefMaxWorkspaceBytes, &most, sizeof(most))));
  return out;
}

Gemms::~Gemms() {
  for (const Problem& p : problems_) {
    for (CublasLtLayout l : {p.w, p.a, p.residual, p.out}) {
      if (l != nullptr) api_.MatrixLayoutDestroy(l);
    }
    if (p.desc != nullptr) api_.MatmulDescDestroy(p.desc);
  }
  if (preference_ != nullptr) api_.MatmulPreferenceDestroy(preference_);
  if (handle_ != nullptr) api_.Destroy(handle_);
}

// Row-major out[m, n] is column-major [n, m]: out = w^T a with w [k, n] and a
// [k, m], all column-major as they lie.
absl::StatusOr<int> Gemms::Add(const GemmShape& shape) {
  for (size_t i = 0; i < problems_.size(); ++i) {
    if (problems_[i].shape == shape) return static_cast<int>(i);
  }
  DS_ASSIGN_OR_RETURN(const int in, CudaType(shape.in));
  DS_ASSIGN_OR_RETURN(const int out, CudaType(shape.out));
  problems_.emplace_back();  // ours to free from here on
  Problem& p = problems_.back();
  p.shape = shape;
  const auto check = [&](CublasStatus s) { return Check(s, p, 1); };
  DS_RETURN_IF_ERROR(
      check(api_.MatmulDescCreate(&p.desc, kCublasCompute32F, kCudaR32F)));
  const int transposed = kCublasOpT;
  DS_RETURN_IF_ERROR(check(api_.MatmulDescSetAttribute(
      p.desc, kMatmulDescTransA, &transposed, sizeof(transposed))));
  const auto layout = [&](CublasLtLayout* l, int type, int64_t rows,
                          int64_t cols, int64_t stride) {
    return check(api_.MatrixLayoutCreate(l, type, rows, cols, stride));
  };
  DS_RETURN_IF_ERROR(layout(&p.w, in, shape.k, shape.n, shape.k));
  DS_RETURN_IF_ERROR(layout(&p.a, in, shape.k, 1, shape.a_stride));
  DS_RETURN_IF_ERROR(layout(&p.out, out, shape.n, 1, shape.out_stride));
  if (shape.residual_stride > 0) {
    DS_RETURN_IF_ERROR(
        layout(&p.residual, out, shape.n, 1, shape.residual_stride));
  }
  return static_cast<int>(problems_.size()) - 1;
}

absl::Status Gemms::SetHeight(const Problem& p, int64_t m) const {
  const uint64_t cols = m;
  for (CublasLtLayout l : {p.a, p.out, p.residual}) {
    if (l == nullptr) continue;
    DS_RETURN_IF_ERROR(Check(api_.MatrixLayoutSetAttribute(l, kMatrixLayoutCols,
                                                           &cols, sizeof(cols)),
                             p, m));
  }
  return absl::OkStatus();
}

CublasStatus Gemms::Start(const Problem& p, const CublasLtAlgo& algo,
                          CUdeviceptr a, CUdeviceptr w, CUdeviceptr residual,
                          CUdeviceptr out, CUstream stream) const {
  const float one = 1, beta = p.residual != nullptr ? 1.0f : 0.0f;
  void* result = reinterpret_cast<void*>(out);
  return api_.Matmul(handle_, p.desc, &one, Pointer(w), p.w, Pointer(a), p.a,
                     &beta, p.residual != nullptr ? Pointer(residual) : result,
                     p.residual != nullptr ? p.residual : p.out, result, p.out,
                     &algo, reinterpret_cast<void*>(workspace_),
                     workspace_bytes_, stream);
}

absl::StatusOr<std::vector<CublasLtAlgo>> Gemms::Candidates(int i, int64_t m,
                                                            int wanted) {
  const Problem& p = problems_[i];
  DS_RETURN_IF_ERROR(SetHeight(p, m));
  std::vector<CublasLtHeuristic> results(wanted);
  int found = 0;
  const CublasStatus status = api_.MatmulAlgoGetHeuristic(
      handle_, p.desc, p.w, p.a, p.residual != nullptr ? p.residual : p.out,
      p.out, preference_, wanted, results.data(), &found);
  if (status != kCublasNotSupported) {
    DS_RETURN_IF_ERROR(Check(status, p, m));
  }
  std::vector<CublasLtAlgo> out;
  for (int r = 0; r < found; ++r) {
    if (results[r].state == kCublasSuccess) out.push_back(results[r].algo);
  }
  if (!out.empty()) return out;
  return absl::UnimplementedError(absl::StrCat(
      "cuBLASLt has no algorithm for ", m, " rows by ", p.shape.Text(),
      "; compile for another --dtype, or update cuBLAS"));
}

absl::StatusOr<CublasLtAlgo> Gemms::FirstAlgo(int i, int64_t m) {
  DS_ASSIGN_OR_RETURN(const std::vector<CublasLtAlgo> algos,
                      Candidates(i, m, 1));
  return algos[0];
}

absl::Status Gemms::RunWith(int i, int64_t m, const CublasLtAlgo& algo,
                            CUdeviceptr a, CUdeviceptr w, CUdeviceptr residual,
                            CUdeviceptr out, CUstream stream) {
  const Problem& p = problems_[i];
  DS_RETURN_IF_ERROR(SetHeight(p, m));
  return Check(Start(p, algo, a, w, residual, out, stream), p, m);
}

absl::Status Gemms::Run(int i, int64_t m, CUdeviceptr a, CUdeviceptr w,
                        CUdeviceptr residual, CUdeviceptr out,
                        CUstream stream) {
  Problem& p = problems_[i];
  const int c = GemmClassOf(m);
  if (p.sources[c] == Problem::Source::kNone) {
    DS_ASSIGN_OR_RETURN(p.algos[c], FirstAlgo(i, std::max(m, kGemmClasses[c])));
    p.sources[c] = Problem::Source::kHeuristic;
  }
  DS_RETURN_IF_ERROR(SetHeight(p, m));
  const auto exact = p.exact.find(m);
  const CublasStatus status =
      Start(p, exact == p.exact.end() ? p.algos[c] : exact->second, a, w,
            residual, out, stream);
  const bool refused =
      status == kCublasNotSupported || status == kCublasInvalidValue;
  if (!refused || exact != p.exact.end()) return Check(status, p, m);
  // Split sums, say, may want more workspace at this height.
  DS_ASSIGN_OR_RETURN(const CublasLtAlgo algo, FirstAlgo(i, m));
  p.exact[m] = algo;
  return Check(Start(p, algo, a, w, residual, out, stream), p, m);
}

bool Gemms::Accepts(int i, int gemm_class, const CublasLtAlgo& algo) {
  const Problem& p = problems_[i];
  if (!SetHeight(p, kGemmClasses[gemm_class]).ok()) return false;
  CublasLtHeuristic result = {};
  return api_.MatmulAlgoCheck(handle_, p.desc, p.w, p.a,
                              p.residual != nullptr ? p.residual : p.out, p.out,
                              &algo, &result) == kCublasSuccess &&
         result.state == kCublasSuccess &&
         static_cast<int64_t>(result.workspace_bytes) <= workspace_bytes_;
}

void Gemms::Choose(int i, int gemm_class, const CublasLtAlgo& algo) {
  problems_[i].algos[gemm_class] = algo;
  problems_[i].sources[gemm_class] = Problem::Source::kChosen;
  problems_[i].exact.clear();
}

const CublasLtAlgo* Gemms::chosen(int i, int gemm_class) const {
  const Problem& p = problems_[i];
  return p.sources[gemm_class] == Problem::Source::kChosen
             ? &p.algos[gemm_class]
             : nullptr;
}

}  // namespace deepslice
