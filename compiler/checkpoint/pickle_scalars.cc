#include "compiler/checkpoint/pickle_scalars.h"

#include "schema/base/status_macros.h"

namespace deepslice::pickle {

bool MayHoldPickles(Op op) {
  switch (op) {
    case Op::kSTRING:
    case Op::kBINSTRING:
    case Op::kSHORT_BINSTRING:
    case Op::kBINBYTES:
    case Op::kSHORT_BINBYTES:
    case Op::kBINBYTES8:
    case Op::kBYTEARRAY8:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<Value*> ReadScalar(Op op, Cursor& cursor, Heap& heap) {
  switch (op) {
    case Op::kNONE:
      return heap.None();
    case Op::kNEWTRUE:
      return heap.Bool(true);
    case Op::kNEWFALSE:
      return heap.Bool(false);
    case Op::kBININT: {
      DS_ASSIGN_OR_RETURN(const int32_t v, cursor.Number<int32_t>());
      return heap.Int(v);
    }
    case Op::kBININT1: {
      DS_ASSIGN_OR_RETURN(const uint8_t v, cursor.Number<uint8_t>());
      return heap.Int(v);
    }
    case Op::kBININT2: {
      DS_ASSIGN_OR_RETURN(const uint16_t v, cursor.Number<uint16_t>());
      return heap.Int(v);
    }
    case Op::kLONG1: {
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Counted<uint8_t>());
      return LongOfBytes(heap, bytes);
    }
    case Op::kLONG4: {
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Counted<int32_t>());
      return LongOfBytes(heap, bytes);
    }
    case Op::kBINFLOAT: {
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Take(8));
      return FloatOfBytes(heap, bytes);
    }
    case Op::kINT: {
      DS_ASSIGN_OR_RETURN(const auto line, cursor.Line());
      return IntOfLine(heap, line);
    }
    case Op::kLONG: {
      DS_ASSIGN_OR_RETURN(const auto line, cursor.Line());
      return LongOfLine(heap, line);
    }
    case Op::kFLOAT: {
      DS_ASSIGN_OR_RETURN(const auto line, cursor.Line());
      return FloatOfLine(heap, line);
    }
    case Op::kSTRING: {
      DS_ASSIGN_OR_RETURN(const auto line, cursor.Line());
      DS_ASSIGN_OR_RETURN(Value * v, StringOfLine(heap, line));
      return v;
    }
    case Op::kUNICODE: {
      DS_ASSIGN_OR_RETURN(const auto line, cursor.Line());
      return UnicodeOfLine(heap, line);
    }
    case Op::kSHORT_BINUNICODE: {
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Counted<uint8_t>());
      return TextOfBytes(heap, bytes);
    }
    case Op::kBINUNICODE: {
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Counted<uint32_t>());
      return TextOfBytes(heap, bytes);
    }
    case Op::kBINUNICODE8: {
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Counted<uint64_t>());
      return TextOfBytes(heap, bytes);
    }
    case Op::kSHORT_BINSTRING: {
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Counted<uint8_t>());
      return StringOfBytes(heap, bytes);
    }
    case Op::kBINSTRING: {
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Counted<int32_t>());
      return StringOfBytes(heap, bytes);
    }
    case Op::kSHORT_BINBYTES: {
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Counted<uint8_t>());
      return heap.Text(Kind::kBytes, bytes);
    }
    case Op::kBINBYTES: {
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Counted<uint32_t>());
      return heap.Text(Kind::kBytes, bytes);
    }
    default: {  // BINBYTES8, BYTEARRAY8
      DS_ASSIGN_OR_RETURN(const auto bytes, cursor.Counted<uint64_t>());
      return heap.Text(Kind::kBytes, bytes);
    }
  }
}

}  // namespace deepslice::pickle
