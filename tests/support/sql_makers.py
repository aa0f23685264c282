"""SQL makers: Hypothesis strategies of SQL92 expressions and of properties to evaluate them on.

Expressions follow RocketMQ's grammar, so most are legal. Names, numbers and texts come from small
sets, so that they are often equal. `RULE_BREAKING` also makes expressions that the rules of
comparison forbid.
"""

from hypothesis import strategies as st

NAMES = ("a", "b", "c", "A", "$x", "_y1")
TEXTS = (
    "", "x", "ab", "abc", "5", "-5", "5.0", "5.5", "+7", "007", "2147483648", "9223372036854775808",
    "true", "FALSE", "NaN", "1e3", "0x1p3", " 5 ", "5d", "Infinity", "-0.0", "it's", "äöü", "日本",
    "😀", "٥", "-", ".",
)  # fmt: skip
NUMBERS = (
    "0", "5", "7", "5L", "1000", "2147483647", "2147483648", "9223372036854775807", "5.5", "5.",
    ".5", "1e3", "5.0E0", "1E308", "4.9e-324",
)  # fmt: skip
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
SEARCHES = ("CONTAINS", "NOT CONTAINS", "STARTSWITH", "not startswith", "EndsWith", "NOT ENDSWITH")

names = st.sampled_from(NAMES)
quoted = st.sampled_from(TEXTS).map(lambda text: "'" + text.replace("'", "''") + "'")
numbers = st.sampled_from(NUMBERS)
signed = st.builds("{}{}".format, st.sampled_from(("", "", "-", "+", "- -", "-+")), numbers)
properties = st.dictionaries(names, st.sampled_from(TEXTS).filter(bool), max_size=5)
values = names | signed | quoted | st.sampled_from(("TRUE", "false"))
numeric = names | signed | st.builds("-{}".format, names)


@st.composite
def lists(draw: st.DrawFn) -> str:
    return "(" + ", ".join(draw(st.lists(quoted, min_size=1, max_size=7))) + ")"


conditions = st.one_of(
    st.builds("{} {} {}".format, values, st.sampled_from(("=", "<>")), values),
    st.builds("{} {} {}".format, numeric, st.sampled_from(COMPARISONS), numeric),
    st.builds("{} {} {}".format, numeric, st.sampled_from(COMPARISONS), numeric),
    st.builds("{} {} {} AND {}".format, numeric, st.sampled_from(("BETWEEN", "NOT BETWEEN")),
              numeric, numeric),
    st.builds("{} {} {}".format, names, st.sampled_from(("IN", "NOT IN")), lists()),
    st.builds("{} {} {}".format, values, st.sampled_from(SEARCHES), quoted),
    st.builds("{} IS {}".format, values, st.sampled_from(("NULL", "NOT NULL"))),
    names,
    st.sampled_from(("TRUE", "FALSE", "NULL")),
)  # fmt: skip


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    grouped = st.builds("({})".format, inner)
    return st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from(("AND", "OR", "and", "Or")), inner),
        grouped,
        st.builds("NOT {}".format, grouped),
        st.builds("{} = {}".format, grouped, grouped | values),
        st.builds("{} IS NOT NULL".format, grouped),
        st.builds("{} > -{}".format, names, grouped),
    )


expressions = st.recursive(conditions, larger, max_leaves=8)
words = st.sampled_from(
    (
        "NOT", "AND", "OR", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "CONTAINS", "LIKE",
        "STARTSWITH", "ENDSWITH", "(", ")", ",", "=", "<>", "<", "<=", ">", ">=", "+", "-", "--",
        "/*", "*/", "\n", "'", "''", ".", "5", "0", "07", "5.5", "1e", "'x'", "a", "b", "A", "0.0",
        "a1", "1a", ";", "!=", "==", "%", '"a"', "$", "é", "5l", "0l", "9223372036854775808",
        "1e999", "1e-999",
    )
)  # fmt: skip
word_soup = st.builds("".join, st.lists(words | st.just(" "), max_size=12))
spaced_soup = st.builds(" ".join, st.lists(words, max_size=9))
