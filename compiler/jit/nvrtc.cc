#include "compiler/jit/nvrtc.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr int kOldestMajor = 12;
constexpr char kInstall[] =
    "install the CUDA toolkit 12 or 13, or run tools/setup.sh, or pip install "
    "nvidia-cuda-nvrtc and set DEEPSLICE_NVRTC to the folder that holds "
    "libnvrtc.so";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The library's names in a folder, or by themselves when it is "".
void AddNames(const std::string& folder, std::vector<std::string>* out) {
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
    out->push_back(folder.empty() ? name : JoinPath(folder, name));
  }
}

// In a folder, its lib folders and where PyPI's wheels put it below one.
void AddFolder(const std::string& folder, std::vector<std::string>* out) {
  for (const char* below :
       {"", "lib64", "lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}) {
    AddNames(*below == '\0' ? folder : JoinPath(folder, below), out);
  }
}

std::vector<std::string> Candidates() {
  std::vector<std::string> out;
  if (const std::string given = Variable("DEEPSLICE_NVRTC"); !given.empty()) {
    if (DirectoryExists(given)) {
      AddFolder(given, &out);
    } else {
      out.push_back(given);
    }
    return out;
  }
  AddNames("", &out);
  if (const std::string home = Variable("CUDA_HOME"); !home.empty()) {
    AddFolder(home, &out);
  }
  AddFolder("/usr/local/cuda", &out);
  std::string data = Variable("XDG_DATA_HOME");
  if (data.empty() && !Variable("HOME").empty()) {
    data = JoinPath(Variable("HOME"), ".local/share");
  }
  if (!data.empty()) AddFolder(JoinPath(data, "deepslice/nvrtc"), &out);
  return out;
}

// NVRTC opens its second library by name while it compiles, which finds nothing
// where a wheel was unpacked: its folder is none of the loader's. One that is
// open already is found everywhere.
absl::Status OpenBuiltins(const Nvrtc& n, const std::string& folder) {
  const std::string name =
      absl::StrCat("libnvrtc-builtins.so.", n.major, ".", n.minor);
  const std::string beside = JoinPath(folder, name);
  const std::string path = FileExists(beside) ? beside : name;
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      n.path, ": can't open ", path, ", which it needs: ", dlerror(),
      "; install both of one version: ", kInstall));
}

template <typename F>
void Bind(void* library, const char* name, F* out, std::string* missing) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr && missing->empty()) *missing = name;
  *out = reinterpret_cast<F>(symbol);
}

}  // namespace

absl::StatusOr<Nvrtc> OpenNvrtc() {
  const std::string given = Variable("DEEPSLICE_NVRTC");
  void* library = nullptr;
  std::string why;  // of a file that is there and can't be loaded
  std::string opened;
  for (const std::string& path : Candidates()) {
    const bool named = path.find('/') != std::string::npos;
    if (named && !FileExists(path)) continue;
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      opened = named ? path : "";
      break;
    }
    if (named && why.empty()) why = dlerror();
  }
  if (library == nullptr) {
    if (!why.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "libnvrtc: ", why, "; kernels need it at compile time: ", kInstall));
    }
    return absl::FailedPreconditionError(
        given.empty()
            ? absl::StrCat("libnvrtc: not found, and kernels need it at "
                           "compile time (no GPU is needed): ",
                           kInstall)
            : absl::StrCat("DEEPSLICE_NVRTC=", given,
                           ": no libnvrtc.so, .so.12 or .so.13 there; name the "
                           "library or its folder, or unset the variable"));
  }
  Nvrtc n;
  std::string missing;
  Bind(library, "nvrtcVersion", &n.version, &missing);
  Bind(library, "nvrtcGetErrorString", &n.error_string, &missing);
  Bind(library, "nvrtcGetNumSupportedArchs", &n.num_supported_archs, &missing);
  Bind(library, "nvrtcGetSupportedArchs", &n.supported_archs, &missing);
  Bind(library, "nvrtcCreateProgram", &n.create_program, &missing);
  Bind(library, "nvrtcDestroyProgram", &n.destroy_program, &missing);
  Bind(library, "nvrtcCompileProgram", &n.compile_program, &missing);
  Bind(library, "nvrtcAddNameExpression", &n.add_name_expression, &missing);
  Bind(library, "nvrtcGetLoweredName", &n.lowered_name, &missing);
  Bind(library, "nvrtcGetCUBINSize", &n.cubin_size, &missing);
  Bind(library, "nvrtcGetCUBIN", &n.cubin, &missing);
  Bind(library, "nvrtcGetPTXSize", &n.ptx_size, &missing);
  Bind(library, "nvrtcGetPTX", &n.ptx, &missing);
  Bind(library, "nvrtcGetProgramLogSize", &n.log_size, &missing);
  Bind(library, "nvrtcGetProgramLog", &n.log, &missing);
  Dl_info info;
  if (missing.empty() &&
      dladdr(reinterpret_cast<void*>(n.version), &info) != 0 &&
      info.dli_fname != nullptr) {
    n.path = info.dli_fname;
  }
  const std::string where = n.path.empty() ? "libnvrtc" : n.path;
  if (!missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        where, ": has no ", missing, "; allowed: CUDA 12 or 13; ", kInstall));
  }
  if (n.version(&n.major, &n.minor) != 0 || n.major < kOldestMajor) {
    return absl::FailedPreconditionError(
        absl::StrCat(where, ": version ", n.major, ".", n.minor,
                     "; allowed: 12 or 13; ", kInstall));
  }
  DS_RETURN_IF_ERROR(
      OpenBuiltins(n, Dirname(opened.empty() ? n.path : opened)));
  int count = 0;
  if (n.num_supported_archs(&count) == 0 && count > 0) {
    n.archs.resize(count);
    if (n.supported_archs(n.archs.data()) != 0) n.archs.clear();
  }
  struct stat st;
  if (!n.path.empty() && stat(n.path.c_str(), &st) == 0) {
    n.build = absl::StrCat(st.st_size);
  }
  return n;
}

}  // namespace deepslice
