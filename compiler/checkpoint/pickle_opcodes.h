// The opcodes of pickle protocols 0 to 5, by their names in Python's pickle.py.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_OPCODES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_OPCODES_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace deepslice::pickle {

#define DEEPSLICE_PICKLE_OPCODES(OP)                                           \
  OP(MARK, '(')                                                                \
  OP(STOP, '.') OP(POP, '0') OP(POP_MARK, '1') OP(DUP, '2') OP(FLOAT, 'F') OP( \
      INT, 'I') OP(BININT, 'J') OP(BININT1, 'K') OP(LONG, 'L')                 \
      OP(BININT2, 'M') OP(NONE, 'N') OP(PERSID, 'P') OP(BINPERSID, 'Q') OP(    \
          REDUCE, 'R') OP(STRING, 'S') OP(BINSTRING, 'T')                      \
          OP(SHORT_BINSTRING, 'U') OP(UNICODE, 'V') OP(BINUNICODE, 'X') OP(    \
              APPEND, 'a') OP(BUILD, 'b') OP(GLOBAL, 'c') OP(DICT, 'd')        \
              OP(EMPTY_DICT, '}') OP(APPENDS, 'e') OP(GET, 'g') OP(            \
                  BINGET, 'h') OP(INST, 'i') OP(LONG_BINGET, 'j')              \
                  OP(LIST, 'l') OP(EMPTY_LIST, ']') OP(OBJ, 'o') OP(           \
                      PUT, 'p') OP(BINPUT, 'q')                                \
                      OP(LONG_BINPUT, 'r') OP(SETITEM, 's') OP(TUPLE, 't') OP( \
                          EMPTY_TUPLE, ')') OP(SETITEMS, 'u')                  \
                          OP(BINFLOAT, 'G') OP(                                \
                              BINBYTES, 'B') OP(SHORT_BINBYTES, 'C') OP(PROTO, \
                                                                        0x80)  \
                              OP(NEWOBJ, 0x81) OP(EXT1, 0x82)                  \
                                  OP(EXT2, 0x83) OP(EXT4, 0x84) OP(            \
                                      TUPLE1,                                  \
                                      0x85) OP(TUPLE2,                         \
                                               0x86) OP(TUPLE3, 0x87)          \
                                      OP(NEWTRUE, 0x88) OP(NEWFALSE, 0x89) OP( \
                                          LONG1,                               \
                                          0x8a) OP(LONG4, 0x8b)                \
                                          OP(SHORT_BINUNICODE, 0x8c) OP(       \
                                              BINUNICODE8,                     \
                                              0x8d) OP(BINBYTES8,              \
                                                       0x8e) OP(EMPTY_SET,     \
                                                                0x8f)          \
                                              OP(ADDITEMS, 0x90) OP(           \
                                                  FROZENSET,                   \
                                                  0x91) OP(NEWOBJ_EX, 0x92)    \
                                                  OP(STACK_GLOBAL, 0x93) OP(   \
                                                      MEMOIZE, 0x94) OP(FRAME, \
                                                                        0x95)  \
                                                      OP(BYTEARRAY8, 0x96) OP( \
                                                          NEXT_BUFFER, 0x97)   \
                                                          OP(READONLY_BUFFER,  \
                                                             0x98)

enum class Op : uint8_t {
#define OP(name, code) k##name = code,
  DEEPSLICE_PICKLE_OPCODES(OP)
#undef OP
};

// "REDUCE"; "" for a byte that is no opcode.
inline absl::string_view OpName(uint8_t code) {
  switch (code) {
#define OP(name, code) \
  case code:           \
    return #name;
    DEEPSLICE_PICKLE_OPCODES(OP)
#undef OP
    default:
      return "";
  }
}

}  // namespace deepslice::pickle

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_OPCODES_H_
