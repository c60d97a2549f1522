// cuBLASLt's part of the fake GPU: products of column-major matrices as BLAS
// defines them, computed on the host.
#include <cstring>

#include "runtime/testing/fake_gpu.h"
#include "schema/base/check.h"
#include "schema/base/dtype.h"

namespace deepslice {
namespace {

struct Desc {
  int compute, scale;
  int trans_a = kCublasOpN, trans_b = kCublasOpN;
};
struct Layout {
  int type;
  uint64_t rows, cols;
  int64_t ld;
};
struct Preference {
  uint64_t workspace = 0;
};

#define DS_ENTER(name)                                       \
  FakeGpu& f = *CurrentFakeGpu();                            \
  const std::lock_guard<std::recursive_mutex> lock(f.mutex); \
  if (const int failure = f.Enter(name); failure != 0) return failure

double Get(const void* data, int type, int64_t i) {
  switch (type) {
    case kCudaR32F:
      return static_cast<const float*>(data)[i];
    case kCudaR16F:
      return F16ToFloat(static_cast<const uint16_t*>(data)[i]);
    default:
      DS_CHECK(type == kCudaR16BF);
      return BF16ToFloat(static_cast<const uint16_t*>(data)[i]);
  }
}

void Set(void* data, int type, int64_t i, double value) {
  const auto v = static_cast<float>(value);
  switch (type) {
    case kCudaR32F:
      static_cast<float*>(data)[i] = v;
      return;
    case kCudaR16F:
      static_cast<uint16_t*>(data)[i] = FloatToF16(v);
      return;
    default:
      static_cast<uint16_t*>(data)[i] = FloatToBF16(v);
  }
}

size_t GetVersion() { return CurrentFakeGpu()->cublas_version; }
const char* GetStatusName(CublasStatus status) {
  return status == kCublasSuccess        ? "CUBLAS_STATUS_SUCCESS"
         : status == kCublasNotSupported ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                         : "CUBLAS_STATUS_FAKE";
}
int Create(CublasLtHandle* out) {
  DS_ENTER("Create");
  *out = new int;
  return 0;
}
int Destroy(CublasLtHandle h) {
  DS_ENTER("Destroy");
  delete static_cast<int*>(h);
  return 0;
}
int DescCreate(CublasLtDesc* out, int compute, int scale) {
  DS_ENTER("MatmulDescCreate");
  *out = new Desc{compute, scale};
  return 0;
}
int DescDestroy(CublasLtDesc d) {
  DS_ENTER("MatmulDescDestroy");
  delete static_cast<Desc*>(d);
  return 0;
}
int DescSet(CublasLtDesc d, int which, const void* value, size_t size) {
  DS_ENTER("MatmulDescSetAttribute");
  if (size != sizeof(int)) return kCublasInvalidValue;
  auto* desc = static_cast<Desc*>(d);
  int& at = which == kMatmulDescTransA ? desc->trans_a : desc->trans_b;
  std::memcpy(&at, value, size);
  return 0;
}
int LayoutCreate(CublasLtLayout* out, int type, uint64_t rows, uint64_t cols,
                 int64_t ld) {
  DS_ENTER("MatrixLayoutCreate");
  *out = new Layout{type, rows, cols, ld};
  return 0;
}
int LayoutDestroy(CublasLtLayout l) {
  DS_ENTER("MatrixLayoutDestroy");
  delete static_cast<Layout*>(l);
  return 0;
}
int LayoutSet(CublasLtLayout l, int which, const void* value, size_t size) {
  DS_ENTER("MatrixLayoutSetAttribute");
  if (which != kMatrixLayoutCols || size != sizeof(uint64_t)) {
    return kCublasInvalidValue;
  }
  std::memcpy(&static_cast<Layout*>(l)->cols, value, size);
  return 0;
}
int PreferenceCreate(CublasLtPreference* out) {
  DS_ENTER("MatmulPreferenceCreate");
  *out = new Preference;
  return 0;
}
int PreferenceDestroy(CublasLtPreference p) {
  DS_ENTER("MatmulPreferenceDestroy");
  delete static_cast<Preference*>(p);
  return 0;
}
int PreferenceSet(CublasLtPreference, int, const void*, size_t) {
  DS_ENTER("MatmulPreferenceSetAttribute");
  return 0;
}
int GetHeuristic(CublasLtHandle, CublasLtDesc, CublasLtLayout, CublasLtLayout,
                 CublasLtLayout, CublasLtLayout, CublasLtPreference, int wanted,
                 CublasLtHeuristic* out, int* found) {
  DS_ENTER("MatmulAlgoGetHeuristic");
  *found = 0;
  while (*found < wanted &&
         *found < static_cast<int>(f.gemm_milliseconds.size())) {
    out[*found] = {};
    out[*found].algo.data[0] = *found;
    ++*found;
  }
  return 0;
}
int AlgoCheck(CublasLtHandle, CublasLtDesc, CublasLtLayout, CublasLtLayout,
              CublasLtLayout, CublasLtLayout, const CublasLtAlgo* algo,
              CublasLtHeuristic* out) {
  DS_ENTER("MatmulAlgoCheck");
  *out = {};
  out->algo = *algo;
  return algo->data[0] < f.gemm_milliseconds.size() ? 0 : kCublasNotSupported;
}
int Matmul(CublasLtHandle, CublasLtDesc desc, const void* alpha, const void* a,
           CublasLtLayout a_layout, const void* b, CublasLtLayout b_layout,
           const void* beta, const void* c, CublasLtLayout c_layout, void* d,
           CublasLtLayout d_layout, const CublasLtAlgo* algo, void* workspace,
           size_t workspace_bytes, CUstream stream) {
  DS_ENTER("Matmul");
  const Desc op = *static_cast<Desc*>(desc);
  const Layout la = *static_cast<Layout*>(a_layout);
  const Layout lb = *static_cast<Layout*>(b_layout);
  const Layout lc = *static_cast<Layout*>(c_layout);
  const Layout ld = *static_cast<Layout*>(d_layout);
  const auto rows = [](const Layout& l, int trans) {
    return static_cast<int64_t>(trans == kCublasOpN ? l.rows : l.cols);
  };
  const int64_t m = rows(la, op.trans_a), n = static_cast<int64_t>(ld.cols);
  const int64_t k = rows(lb, op.trans_b);
  const bool fits =
      op.compute == kCublasCompute32F && op.scale == kCudaR32F &&
      op.trans_b == kCublasOpN && static_cast<int64_t>(ld.rows) == m &&
      static_cast<int64_t>(lb.cols) == n &&
      static_cast<int64_t>(op.trans_a == kCublasOpN ? la.cols : la.rows) == k &&
      lc.rows == ld.rows && lc.cols == ld.cols && lc.type == ld.type &&
      la.ld >= static_cast<int64_t>(la.rows) &&
      lb.ld >= static_cast<int64_t>(lb.rows) &&
      ld.ld >= static_cast<int64_t>(ld.rows) &&
      f.Owns(reinterpret_cast<CUdeviceptr>(workspace), workspace_bytes);
  if (!fits) return kCublasInvalidValue;
  const uint64_t which = algo->data[0];
  if (which >= f.gemm_milliseconds.size()) return kCublasNotSupported;
  const float scale_ab = *static_cast<const float*>(alpha);
  const float scale_c = *static_cast<const float*>(beta);
  f.Do(stream, [=] {
    FakeGpu& now = *CurrentFakeGpu();
    now.clock_ms += now.gemm_milliseconds[which];
    now.products.push_back({n, m, k, which, now.running_graph});
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (int64_t x = 0; x < k; ++x) {
          const int64_t at =
              op.trans_a == kCublasOpN ? x * la.ld + i : i * la.ld + x;
          sum += Get(a, la.type, at) * Get(b, lb.type, j * lb.ld + x);
        }
        sum *= scale_ab;
        if (scale_c != 0) sum += scale_c * Get(c, lc.type, j * lc.ld + i);
        Set(d, ld.type, j * ld.ld + i, sum);
      }
    }
  });
  return 0;
}

}  // namespace

CublasLtApi FakeCublasLtApi() {
  CublasLtApi api;
  api.GetVersion = GetVersion;
  api.GetStatusName = GetStatusName;
  api.Create = Create;
  api.Destroy = Destroy;
  api.MatmulDescCreate = DescCreate;
  api.MatmulDescDestroy = DescDestroy;
  api.MatmulDescSetAttribute = DescSet;
  api.MatrixLayoutCreate = LayoutCreate;
  api.MatrixLayoutDestroy = LayoutDestroy;
  api.MatrixLayoutSetAttribute = LayoutSet;
  api.MatmulPreferenceCreate = PreferenceCreate;
  api.MatmulPreferenceDestroy = PreferenceDestroy;
  api.MatmulPreferenceSetAttribute = PreferenceSet;
  api.MatmulAlgoGetHeuristic = GetHeuristic;
  api.MatmulAlgoCheck = AlgoCheck;
  api.Matmul = Matmul;
#define DS_THERE(name, ...) DS_CHECK(api.name != nullptr);
  DS_CUBLASLT_FUNCTIONS(DS_THERE)
#undef DS_THERE
  return api;
}

}  // namespace deepslice
