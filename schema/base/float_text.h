// Prints numbers as Python's repr does: JSON files and templates agree on it.
#ifndef DEEPSLICE_SCHEMA_BASE_FLOAT_TEXT_H_
#define DEEPSLICE_SCHEMA_BASE_FLOAT_TEXT_H_

#include <string>

namespace deepslice {

// The shortest digits that read back equal, with an exponent below 1e-4 and
// from 1e16 on: "0.1", "5000.0", "1e-05", "1.5e+300"; "nan", "inf", "-inf".
std::string FloatText(double d);

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_BASE_FLOAT_TEXT_H_
