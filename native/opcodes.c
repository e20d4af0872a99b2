#include "peek.h"

#ifdef PEEK_KNOWS_FRAMES
#include "opcodes.h"

#include <opcode.h>

static const bool runs_c[256] = {
    [CALL] = true,
    [CALL_FUNCTION_EX] = true,
    [BINARY_OP] = true,
    [BINARY_SUBSCR] = true,
    [STORE_SUBSCR] = true,
    [DELETE_SUBSCR] = true,
    [COMPARE_OP] = true,
    [CONTAINS_OP] = true,
    [UNARY_NEGATIVE] = true,
    [UNARY_INVERT] = true,
    [UNPACK_SEQUENCE] = true,
    [UNPACK_EX] = true,
    [LIST_EXTEND] = true,
    [SET_UPDATE] = true,
    [DICT_UPDATE] = true,
    [DICT_MERGE] = true,
    [GET_ITER] = true,
    [IMPORT_NAME] = true,
    [BEFORE_WITH] = true,
    [WITH_EXCEPT_START] = true,
#if PY_VERSION_HEX < 0x030C0000
    /* PRECALL makes the call where it is specialised for C. */
    [PRECALL] = true,
    [PRECALL_ADAPTIVE] = true,
    [PRECALL_BUILTIN_CLASS] = true,
    [PRECALL_BUILTIN_FAST_WITH_KEYWORDS] = true,
    [PRECALL_METHOD_DESCRIPTOR_FAST_WITH_KEYWORDS] = true,
    [PRECALL_NO_KW_BUILTIN_FAST] = true,
    [PRECALL_NO_KW_BUILTIN_O] = true,
    [PRECALL_NO_KW_LIST_APPEND] = true,
    [PRECALL_NO_KW_METHOD_DESCRIPTOR_FAST] = true,
    [PRECALL_NO_KW_METHOD_DESCRIPTOR_NOARGS] = true,
    [PRECALL_NO_KW_METHOD_DESCRIPTOR_O] = true,
    [PRECALL_NO_KW_STR_1] = true,
    [PRECALL_NO_KW_TUPLE_1] = true,
    [CALL_ADAPTIVE] = true,
    [BINARY_OP_ADAPTIVE] = true,
    [BINARY_SUBSCR_ADAPTIVE] = true,
    [STORE_SUBSCR_ADAPTIVE] = true,
    [COMPARE_OP_ADAPTIVE] = true,
    [UNPACK_SEQUENCE_ADAPTIVE] = true,
    [UNARY_POSITIVE] = true,
    [FORMAT_VALUE] = true,
#else
    [BINARY_SLICE] = true,
    [STORE_SLICE] = true,
    [FOR_ITER] = true,
    [CALL_BUILTIN_CLASS] = true,
    [CALL_BUILTIN_FAST_WITH_KEYWORDS] = true,
    [CALL_METHOD_DESCRIPTOR_FAST_WITH_KEYWORDS] = true,
    [INSTRUMENTED_CALL] = true,
    [INSTRUMENTED_CALL_FUNCTION_EX] = true,
#endif
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
    [CALL_NO_KW_BUILTIN_FAST] = true,
    [CALL_NO_KW_BUILTIN_O] = true,
    [CALL_NO_KW_LIST_APPEND] = true,
    [CALL_NO_KW_METHOD_DESCRIPTOR_FAST] = true,
    [CALL_NO_KW_METHOD_DESCRIPTOR_NOARGS] = true,
    [CALL_NO_KW_METHOD_DESCRIPTOR_O] = true,
    [CALL_NO_KW_STR_1] = true,
    [CALL_NO_KW_TUPLE_1] = true,
    [FORMAT_VALUE] = true,
#endif
#if PY_VERSION_HEX >= 0x030D0000
    [CALL_KW] = true,
    [CALL_NON_PY_GENERAL] = true,
    [CALL_BUILTIN_FAST] = true,
    [CALL_BUILTIN_O] = true,
    [CALL_LIST_APPEND] = true,
    [CALL_METHOD_DESCRIPTOR_FAST] = true,
    [CALL_METHOD_DESCRIPTOR_NOARGS] = true,
    [CALL_METHOD_DESCRIPTOR_O] = true,
    [CALL_STR_1] = true,
    [CALL_TUPLE_1] = true,
    [TO_BOOL] = true,
    [FORMAT_SIMPLE] = true,
    [FORMAT_WITH_SPEC] = true,
    [INSTRUMENTED_CALL_KW] = true,
#endif
};

bool opcode_runs_c(uint8_t opcode) { return runs_c[opcode]; }

#endif
