"""SqlProgram: check and run. See sql_program.pxd; the format is in rmq/filters/program.py."""
from libc.math cimport copysign, isnan
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp

from cext.base.status cimport Status
from cext.wire.java_number cimport java_double, java_integer
from cext.wire.property_pairs cimport PairCursor, pairs_next, pairs_start, rmq_same_name
from cext.wire.text cimport Text

cdef extern from *:
    """
    extern void *memmem(const void *, size_t, const void *, size_t);
    """
    void* memmem(const void* where, size_t length, const void* what, size_t size) nogil

cdef enum:
    INSTRUCTIONS_MAX = 4096
    CONSTANTS_MAX = 2048
    HEADER_BYTES = 16

cdef enum Kind:                     # of constants and values; numbers as in rmq/filters/tree.py
    KIND_NULL
    KIND_BOOL
    KIND_INT
    KIND_LONG
    KIND_DOUBLE
    KIND_TEXT

cdef enum Operation:                # numbers as in rmq/filters/program.py
    PROPERTY
    CONSTANT
    NEGATE
    NOT
    CAST
    EQUAL
    COMPARE
    CONTAINS
    STARTS
    ENDS
    IN
    AND
    OR
    JUMP_FALSE
    JUMP_TRUE
    JUMP_NULL
    OPERATIONS

cdef enum Sign:                     # flag of COMPARE
    GREATER
    GREATER_EQUAL
    LESS
    LESS_EQUAL
    SIGNS

cdef int64_t most_long = 0x7FFFFFFFFFFFFFFF
cdef int64_t least_long = -most_long - 1

cdef struct Header:
    uint8_t magic[4]
    uint16_t instructions
    uint16_t names
    uint16_t constants
    uint16_t stack
    uint32_t unused

cdef struct Instruction:
    uint8_t operation
    uint8_t flag                    # COMPARE: Sign; searches and IN: negated
    uint16_t a                      # property, constant, IN: first of the texts
    uint32_t b                      # jumps: target; IN: how many texts

cdef struct Place:
    uint32_t at                     # in the texts
    uint32_t length

cdef union Number:
    int64_t whole                   # BOOL: 0 or 1; INT; LONG
    double real                     # DOUBLE

cdef struct Value:
    int32_t kind
    uint32_t length                 # TEXT
    Number n
    const uint8_t* bytes            # TEXT; borrowed

cdef struct StoredConstant:
    uint8_t kind
    uint8_t unused[7]
    Place text
    Number n

cdef struct Parts:                  # of one program, borrowed
    const Header* header
    const Instruction* instructions
    const Place* names
    const StoredConstant* constants
    const uint8_t* texts


cdef inline Parts parts_of(const uint8_t* program) noexcept nogil:
    cdef Parts p
    p.header = <const Header*> program
    p.instructions = <const Instruction*> (program + HEADER_BYTES)
    p.names = <const Place*> (p.instructions + p.header.instructions)
    p.constants = <const StoredConstant*> (p.names + p.header.names)
    p.texts = <const uint8_t*> (p.constants + p.header.constants)
    return p


# ------------------------------------------------------------------- the check

cdef bint texts_fit(const Parts* p, uint64_t room) noexcept nogil:
    cdef uint32_t i
    for i in range(p.header.names):
        if <uint64_t> p.names[i].at + p.names[i].length > room or p.names[i].length == 0:
            return False
    for i in range(p.header.constants):
        if p.constants[i].kind > KIND_TEXT or (
                p.constants[i].kind == KIND_BOOL and not 0 <= p.constants[i].n.whole <= 1):
            return False
        if p.constants[i].kind == KIND_TEXT and (
                <uint64_t> p.constants[i].text.at + p.constants[i].text.length > room):
            return False
    return True


cdef bint all_texts(const Parts* p, uint32_t first, uint32_t count) noexcept nogil:
    cdef uint32_t i
    if <uint64_t> first + count > p.header.constants:
        return False
    for i in range(first, first + count):
        if p.constants[i].kind != KIND_TEXT:
            return False
    return True


cdef int operand_check(const Parts* p, const Instruction* x, uint32_t number) noexcept nogil:
    """By how much the instruction makes the stack grow; -2: its operands are out of range."""
    if x.operation == PROPERTY:
        return 1 if x.a < p.header.names else -2
    if x.operation == CONSTANT:
        return 1 if x.a < p.header.constants else -2
    if x.operation == COMPARE:
        return -1 if x.flag < SIGNS else -2
    if x.operation == EQUAL or x.operation == AND or x.operation == OR:
        return -1
    if x.operation == IN:
        return 0 if all_texts(p, x.a, x.b) else -2
    if CONTAINS <= x.operation <= ENDS:
        return 0 if all_texts(p, x.a, 1) else -2
    if JUMP_FALSE <= x.operation <= JUMP_NULL:
        return 0 if number < x.b <= p.header.instructions else -2
    return 0 if x.operation < OPERATIONS else -2


cdef int sql_program_check(const uint8_t* program, uint64_t length) noexcept nogil:
    cdef const Header* header = <const Header*> program
    cdef int16_t expected[INSTRUCTIONS_MAX + 1]     # stack depth at jump targets, 0: none
    cdef uint64_t used
    cdef Parts p
    cdef int depth = 0
    cdef int change
    cdef uint32_t i
    if length < HEADER_BYTES or length > SQL_PROGRAM_BYTES_MAX \
            or memcmp(program, b"SQL1", 4) != 0:
        return Status.MALFORMED
    used = HEADER_BYTES + 8 * (<uint64_t> header.instructions + header.names) \
        + 24 * <uint64_t> header.constants
    if (header.instructions == 0 or header.instructions > INSTRUCTIONS_MAX
            or header.names > SQL_NAMES_MAX or header.constants > CONSTANTS_MAX
            or header.stack > SQL_STACK_MAX or used > length):
        return Status.MALFORMED
    p = parts_of(program)
    if not texts_fit(&p, length - used):
        return Status.MALFORMED
    for i in range(header.instructions + 1):
        expected[i] = 0
    for i in range(header.instructions):
        if expected[i] != 0 and expected[i] != depth:
            return Status.MALFORMED
        change = operand_check(&p, &p.instructions[i], i)
        if change == -2 or depth + change > header.stack:
            return Status.MALFORMED
        if depth < (0 if change == 1 else 1 - change):
            return Status.MALFORMED
        depth += change
        if JUMP_FALSE <= p.instructions[i].operation <= JUMP_NULL:
            if expected[p.instructions[i].b] not in (0, depth):
                return Status.MALFORMED
            expected[p.instructions[i].b] = depth
    if expected[header.instructions] not in (0, depth):
        return Status.MALFORMED
    return Status.OK if depth == 1 else <int> Status.MALFORMED


# ------------------------------------------------------------------- comparing

cdef inline int order_of(double a, double b) noexcept nogil:
    """As Java's Double.compareTo: -0.0 is below 0.0, NaN is above all and equal to itself."""
    if a < b:
        return -1
    if a > b:
        return 1
    if a == b:
        return <int> (copysign(1.0, a) > copysign(1.0, b)) - <int> (
            copysign(1.0, a) < copysign(1.0, b))
    return <int> isnan(a) - <int> isnan(b)


cdef inline int order_of_wholes(int64_t a, int64_t b) noexcept nogil:
    return <int> (a > b) - <int> (a < b)


cdef inline double as_double(const Value* v) noexcept nogil:
    return v.n.real if v.kind == KIND_DOUBLE else <double> v.n.whole


cdef bint is_true_text(const Value* v) noexcept nogil:
    return (v.length == 4 and (v.bytes[0] | 0x20) == c't' and (v.bytes[1] | 0x20) == c'r'
            and (v.bytes[2] | 0x20) == c'u' and (v.bytes[3] | 0x20) == c'e')


cdef bint read_text(const Value* text, int kind, Value* out) noexcept nogil:
    """Reads the text as a number of this kind; False where Java throws."""
    out.kind = kind
    if kind == KIND_DOUBLE:
        return java_double(text.bytes, text.length, &out.n.real) == Status.OK
    if kind == KIND_INT:
        return java_integer(text.bytes, text.length, -2147483648, 2147483647,
                            &out.n.whole) == Status.OK
    return java_integer(text.bytes, text.length, least_long, most_long,
                        &out.n.whole) == Status.OK


cdef bint order_of_values(const Value* a, const Value* b, int* order) noexcept nogil:
    """Compares two values that are not null. False: the evaluation fails. `order` is -1 for types
    that have no order."""
    cdef Value read
    order[0] = -1
    if a.kind == KIND_TEXT:
        if b.kind == KIND_BOOL:
            order[0] = <int> is_true_text(a) - <int> b.n.whole
            return True
        if not read_text(a, b.kind, &read):
            return False
        a = &read
    elif b.kind == KIND_TEXT:
        if a.kind == KIND_BOOL or not read_text(b, a.kind, &read):
            return False                # Apache casts the boolean to a string, which throws
        b = &read
    elif (a.kind == KIND_BOOL) != (b.kind == KIND_BOOL):
        return True
    if a.kind == KIND_DOUBLE or b.kind == KIND_DOUBLE:
        order[0] = order_of(as_double(a), as_double(b))
    else:
        order[0] = order_of_wholes(a.n.whole, b.n.whole)
    return True


cdef inline void set_truth(Value* v, bint truth) noexcept nogil:
    v.kind = KIND_BOOL
    v.n.whole = truth


cdef bint equal(Value* a, const Value* b) noexcept nogil:
    """Leaves the result in a; False: the evaluation fails."""
    cdef int order
    if a.kind == KIND_NULL or b.kind == KIND_NULL:
        if a.kind == b.kind:
            set_truth(a, True)
        elif b.kind == KIND_NULL:
            set_truth(a, False)
        return True
    if a.kind == KIND_TEXT and b.kind == KIND_TEXT:
        set_truth(a, a.length == b.length and memcmp(a.bytes, b.bytes, a.length) == 0)
        return True
    if not order_of_values(a, b, &order):
        return False
    set_truth(a, order == 0)
    return True


cdef bint compare(Value* a, const Value* b, int sign) noexcept nogil:
    """Leaves the result in a; False: the evaluation fails."""
    cdef Value x, y
    cdef int order
    if a.kind == KIND_NULL:
        return True
    if b.kind == KIND_NULL:
        a.kind = KIND_NULL
        return True
    if a.kind == KIND_TEXT and b.kind == KIND_TEXT:
        if not read_text(a, KIND_DOUBLE, &x) or not read_text(b, KIND_DOUBLE, &y):
            return False
        order = order_of(x.n.real, y.n.real)
    elif not order_of_values(a, b, &order):
        return False
    if sign == GREATER:
        set_truth(a, order > 0)
    elif sign == GREATER_EQUAL:
        set_truth(a, order >= 0)
    elif sign == LESS:
        set_truth(a, order < 0)
    else:
        set_truth(a, order <= 0)
    return True


# ------------------------------------------------------------------- texts

cdef bint holds(const uint8_t* bytes, uint32_t length, const uint8_t* wanted,
                uint32_t wanted_length) noexcept nogil:
    return memmem(bytes, length, wanted, wanted_length) != NULL


cdef void search(Value* v, int operation, bint negated, const uint8_t* wanted,
                 uint32_t length) noexcept nogil:
    cdef bint found = False
    if v.kind != KIND_TEXT or length == 0:
        set_truth(v, False)
        return
    if operation == CONTAINS:
        found = holds(v.bytes, v.length, wanted, length)
    elif length <= v.length:
        found = memcmp(v.bytes + (v.length - length if operation == ENDS else 0), wanted,
                       length) == 0
    set_truth(v, found != negated)


cdef void find_in(Value* v, bint negated, const Parts* p, uint32_t first,
                  uint32_t count) noexcept nogil:
    cdef const StoredConstant* one
    cdef uint32_t i
    cdef bint found = False
    if v.kind != KIND_TEXT:
        v.kind = KIND_NULL
        return
    for i in range(first, first + count):
        one = &p.constants[i]
        if one.text.length == v.length and memcmp(p.texts + one.text.at, v.bytes, v.length) == 0:
            found = True
            break
    set_truth(v, found != negated)


# ------------------------------------------------------------------- the run

cdef void find_values(const Parts* p, const uint8_t* properties, uint32_t length,
                      Value* values) noexcept nogil:
    """Finds the value of each of the program's names; of equal names in the message the last
    counts."""
    cdef PairCursor pairs
    cdef Text name, value
    cdef const Place* wanted
    cdef uint32_t i
    for i in range(p.header.names):
        values[i].kind = KIND_NULL
    pairs_start(&pairs, properties, length)
    while pairs_next(&pairs, &name, &value):
        for i in range(p.header.names):
            wanted = &p.names[i]
            if wanted.length == name.length and rmq_same_name(
                    name.bytes, <const char*> (p.texts + wanted.at), name.length):
                values[i].kind = KIND_TEXT
                values[i].bytes = value.bytes
                values[i].length = value.length


cdef inline void negate(Value* v) noexcept nogil:
    if v.kind == KIND_DOUBLE:
        v.n.real = -v.n.real
    elif v.kind == KIND_INT:
        v.n.whole = <int32_t> (0 - <uint32_t> v.n.whole)
    elif v.kind == KIND_LONG:
        v.n.whole = <int64_t> (0 - <uint64_t> v.n.whole)
    else:
        v.kind = KIND_NULL


cdef inline void combine(Value* a, const Value* b, int64_t decisive) noexcept nogil:
    """AND (decisive 0) or OR (decisive 1) of two truth values."""
    if (a.kind == KIND_BOOL and a.n.whole == decisive) or (
            b.kind == KIND_BOOL and b.n.whole == decisive):
        set_truth(a, decisive != 0)
    elif a.kind == KIND_NULL or b.kind == KIND_NULL:
        a.kind = KIND_NULL


cdef inline void load_constant(const Parts* p, uint32_t number, Value* out) noexcept nogil:
    cdef const StoredConstant* one = &p.constants[number]
    out.kind = one.kind
    out.n = one.n
    out.bytes = p.texts + one.text.at
    out.length = one.text.length


cdef inline bint jumps(const Value* top, int operation) noexcept nogil:
    if operation == JUMP_NULL:
        return top.kind == KIND_NULL
    return top.kind == KIND_BOOL and top.n.whole == (operation == JUMP_TRUE)


cdef bint step(const Parts* p, const Instruction* x, const Value* values,
               Value** at) noexcept nogil:
    """Runs any instruction except jumps; `at` is the top of the stack. False: the evaluation
    fails."""
    cdef Value* top = at[0]
    if x.operation == PROPERTY:
        at[0] = top + 1
        top[1] = values[x.a]
    elif x.operation == CONSTANT:
        at[0] = top + 1
        load_constant(p, x.a, top + 1)
    elif x.operation == COMPARE:
        at[0] = top - 1
        return compare(top - 1, top, x.flag)
    elif x.operation == EQUAL:
        at[0] = top - 1
        return equal(top - 1, top)
    elif x.operation == AND or x.operation == OR:
        at[0] = top - 1
        combine(top - 1, top, x.operation == OR)
    elif x.operation == NOT:
        if top.kind == KIND_BOOL:
            top.n.whole = 1 - top.n.whole
    elif x.operation == IN:
        find_in(top, x.flag, p, x.a, x.b)
    elif x.operation == NEGATE:
        negate(top)
    elif x.operation == CAST:
        if top.kind == KIND_TEXT:
            set_truth(top, False)
    else:
        search(top, x.operation, x.flag, p.texts + p.constants[x.a].text.at,
               p.constants[x.a].text.length)
    return True


cdef int sql_program_run(const uint8_t* program, const uint8_t* properties,
                         uint32_t properties_bytes) noexcept nogil:
    cdef Value values[SQL_NAMES_MAX]
    cdef Value stack[SQL_STACK_MAX + 1]     # stack[0] is below the bottom and not used
    cdef Value* top = stack
    cdef Parts p = parts_of(program)
    cdef const Instruction* x
    cdef uint32_t i = 0
    find_values(&p, properties, properties_bytes, values)
    while i < p.header.instructions:
        x = &p.instructions[i]
        i += 1
        if x.operation >= JUMP_FALSE:
            if jumps(top, x.operation):
                i = x.b
        elif not step(&p, x, values, &top):
            return SQL_FAILED
    if top.kind == KIND_BOOL:
        return SQL_TRUE if top.n.whole else SQL_FALSE
    return SQL_NULL
