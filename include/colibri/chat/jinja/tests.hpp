// Tests: `x is defined`, `x is divisibleby 3`.
#pragma once

#include <string_view>

#include "colibri/chat/jinja/arithmetic.hpp"
#include "colibri/chat/jinja/methods.hpp"

namespace colibri::jinja::detail {

/// Filter and test by name, or null.
[[nodiscard]] native find_filter(std::string_view name) noexcept;
[[nodiscard]] native find_test(std::string_view name) noexcept;

namespace tests {

template <kind Kind>
value is_kind(machine&, const value& self, const arguments& given) {
    expect_none("this test", given);
    return self.is(Kind);
}
inline value defined(machine&, const value& self, const arguments& given) {
    expect_none("defined", given);
    return !self.is_undefined();
}
inline value number(machine&, const value& self, const arguments& given) {
    expect_none("number", given);
    return is_number(self);
}
template <bool Wanted>
value is_bool(machine&, const value& self, const arguments& given) {
    expect_none("this test", given);
    return self.is(kind::boolean) && self.as_bool() == Wanted;
}
inline value iterable(machine& m, const value& self, const arguments& given) {
    expect_none("iterable", given);
    return try_iterate(m, self) != nullptr;
}
inline value sequence(machine&, const value& self, const arguments& given) {
    expect_none("sequence", given);
    if (self.is(kind::object)) return self.as_object()->sequence();
    if (self.is_list()) return type_name(self).find('_') == std::string_view::npos;
    return self.is_string() || self.is_dict() || self.is_undefined();
}
inline value callable(machine&, const value& self, const arguments& given) {
    expect_none("callable", given);
    return self.is(kind::object) && self.as_object()->callable();
}
inline value odd(machine& m, const value& self, const arguments& given) {
    expect_none("odd", given);
    return equal(m, calculate(m, operation::modulo, self, 2), 1);
}
inline value even(machine& m, const value& self, const arguments& given) {
    expect_none("even", given);
    return equal(m, calculate(m, operation::modulo, self, 2), 0);
}
inline value divisibleby(machine& m, const value& self, const arguments& given) {
    const auto [by] = bind("divisibleby", given, {"num"}, 1);
    return equal(m, calculate(m, operation::modulo, self, *by), 0);
}
template <bool Wanted>
value is_equal(machine& m, const value& self, const arguments& given) {
    const auto [other] = bind("this test", given, {"other"}, 1);
    return equal(m, self, *other) == Wanted;
}
/// Order tests: `Less`, `Same`, `Greater` say which results are true.
template <bool Less, bool Same, bool Greater>
value ordered(machine& m, const value& self, const arguments& given) {
    const auto [other] = bind("this test", given, {"other"}, 1);
    const auto how = order(m, self, *other);
    return (Less && how < 0) || (Same && how == 0) || (Greater && how > 0);
}
inline value in(machine& m, const value& self, const arguments& given) {
    const auto [where] = bind("in", given, {"seq"}, 1);
    return contains(m, *where, self);
}
inline value sameas(machine&, const value& self, const arguments& given) {
    const auto [other] = bind("sameas", given, {"other"}, 1);
    if (self.kind() != other->kind()) return false;
    if (self.is_list()) return &self.as_list() == &other->as_list();
    if (self.is_dict()) return &self.as_dict() == &other->as_dict();
    return same_key(self, *other);
}
template <bool Upper>
value is_case(machine& m, const value& self, const arguments& given) {
    return string_methods::is_case<Upper>(m, to_string(m, self), given);
}
inline value is_filter(machine&, const value& self, const arguments& given) {
    expect_none("filter", given);
    return self.is_string() && find_filter(self.as_string().view()) != nullptr;
}
inline value is_test(machine&, const value& self, const arguments& given) {
    expect_none("test", given);
    return self.is_string() && find_test(self.as_string().view()) != nullptr;
}
inline value escaped(machine&, const value& self, const arguments& given) {
    expect_none("escaped", given);
    return self.is_string() && self.as_string().safe();
}

inline constexpr native_entry table[] = {
    {"!=", is_equal<false>},
    {"<", ordered<true, false, false>},
    {"<=", ordered<true, true, false>},
    {"==", is_equal<true>},
    {">", ordered<false, false, true>},
    {">=", ordered<false, true, true>},
    {"boolean", is_kind<kind::boolean>},
    {"callable", callable},
    {"defined", defined},
    {"divisibleby", divisibleby},
    {"eq", is_equal<true>},
    {"equalto", is_equal<true>},
    {"escaped", escaped},
    {"even", even},
    {"false", is_bool<false>},
    {"filter", is_filter},
    {"float", is_kind<kind::real>},
    {"ge", ordered<false, true, true>},
    {"greaterthan", ordered<false, false, true>},
    {"gt", ordered<false, false, true>},
    {"in", in},
    {"integer", is_kind<kind::integer>},
    {"iterable", iterable},
    {"le", ordered<true, true, false>},
    {"lessthan", ordered<true, false, false>},
    {"lower", is_case<false>},
    {"lt", ordered<true, false, false>},
    {"mapping", is_kind<kind::dict>},
    {"ne", is_equal<false>},
    {"none", is_kind<kind::none>},
    {"number", number},
    {"odd", odd},
    {"sameas", sameas},
    {"sequence", sequence},
    {"string", is_kind<kind::string>},
    {"test", is_test},
    {"true", is_bool<true>},
    {"undefined", is_kind<kind::undefined>},
    {"upper", is_case<true>},
};
static_assert(is_sorted_table(table));

}  // namespace tests

inline native find_test(std::string_view name) noexcept { return lookup(tests::table, name); }

}  // namespace colibri::jinja::detail
