// What a program says when a file that it has mapped is cut while it is in use:
// one line in place of "Bus error".
#ifndef DEEPSLICE_SCHEMA_BASE_MAPPED_FAULT_H_
#define DEEPSLICE_SCHEMA_BASE_MAPPED_FAULT_H_

#include <cstddef>
#include <string>

namespace deepslice {

// From now on SIGBUS at a page of a noted mapping prints "PROGRAM: PATH: was cut
// while it was in use: ..." and ends the process with exit code 3, as damaged
// input; elsewhere, exit code 1. `program` must live on.
void ReportMappedFaults(const char* program);

// Names the file behind a mapping. Paths are cut to 1000 bytes; beyond 512
// mappings at a time they have no name. Thread-safe.
void NoteMapping(const void* begin, size_t size, const std::string& path);
void ForgetMapping(const void* begin);

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_BASE_MAPPED_FAULT_H_
