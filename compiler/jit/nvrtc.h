// The few functions of libnvrtc that are used, found at run time: nothing links
// it, so that the compiler starts on machines without.
#ifndef DEEPSLICE_COMPILER_JIT_NVRTC_H_
#define DEEPSLICE_COMPILER_JIT_NVRTC_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace deepslice {

// Declared as NVIDIA's ABI has them; a result of 0 is success.
struct Nvrtc {
  using Program = void*;

  int (*version)(int* major, int* minor);
  const char* (*error_string)(int result);
  int (*num_supported_archs)(int* count);
  int (*supported_archs)(int* archs);
  int (*create_program)(Program* program, const char* source, const char* name,
                        int num_headers, const char* const* headers,
                        const char* const* include_names);
  int (*destroy_program)(Program* program);
  int (*compile_program)(Program program, int num_options,
                         const char* const* options);
  int (*add_name_expression)(Program program, const char* expression);
  int (*lowered_name)(Program program, const char* expression,
                      const char** lowered);
  int (*cubin_size)(Program program, size_t* bytes);
  int (*cubin)(Program program, char* out);
  int (*ptx_size)(Program program, size_t* bytes);
  int (*ptx)(Program program, char* out);
  int (*log_size)(Program program, size_t* bytes);
  int (*log)(Program program, char* out);

  int major = 0, minor = 0;
  std::vector<int> archs;  // 90 for 9.0, ascending
  std::string path;        // of the library
  // Tells builds of one version apart.
  std::string build;
};

// Looks in DEEPSLICE_NVRTC (the library or its folder, and then nowhere else),
// by the loader's own rules, in $CUDA_HOME and /usr/local/cuda, and where
// tools/setup.sh puts it: $XDG_DATA_HOME (~/.local/share) /deepslice/nvrtc.
// FailedPrecondition when none is there or it is older than 12.
absl::StatusOr<Nvrtc> OpenNvrtc();

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_JIT_NVRTC_H_
