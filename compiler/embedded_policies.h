// The files of policies/, inside the binary.
#ifndef DEEPSLICE_COMPILER_EMBEDDED_POLICIES_H_
#define DEEPSLICE_COMPILER_EMBEDDED_POLICIES_H_

namespace deepslice {

struct EmbeddedFile {
  const char* name;  // "llama.json"
  const char* text;
};
extern const EmbeddedFile kPolicyFiles[];
extern const int kPolicyFilesCount;

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_EMBEDDED_POLICIES_H_
