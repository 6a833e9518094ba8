// What a template may use: steps, depth, memory; and that nothing is left behind.
#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "colibri/chat/jinja/program.hpp"

namespace {

using colibri::errc;
using colibri::jinja::failure;
using colibri::jinja::failure_kind;
using colibri::jinja::limits;
using colibri::jinja::program;
using colibri::jinja::value;

failure failure_of(const std::string& source, const limits& allowed = {}, const value& variables = value::object({})) {
    failure why;
    const auto parsed = program::parse(source, allowed, &why);
    if (!parsed) {
        CHECK((parsed.error().code == errc::limit || parsed.error().code == errc::template_syntax));
        return why;
    }
    const auto text = parsed->render(variables, {{}, allowed}, &why);
    REQUIRE_MESSAGE(!text.has_value(), source.substr(0, 200));
    CHECK((text.error().code == errc::limit) == (why.kind == failure_kind::limit));
    return why;
}

bool renders(const std::string& source, const limits& allowed = {}, const value& variables = value::object({})) {
    const auto parsed = program::parse(source, allowed);
    return parsed.has_value() && parsed->render(variables, {{}, allowed}).has_value();
}

std::string times(const std::string& part, std::size_t n) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i) out += part;
    return out;
}

}  // namespace

TEST_CASE("limits: nesting in the source") {
    for (const std::size_t deep : {150u, 30'000u}) {
        const bool fine = deep < 200;
        CAPTURE(deep);
        const std::string sources[] = {
            "{{ " + times("(", deep) + "1" + times(")", deep) + " }}",
            "{{ " + times("1 or 1 and 1 == 1 + 1 ~ 1 * 1 ** (", deep / 8) + "1" + times(")", deep / 8) + " }}",
            "{{ " + times("[", deep / 2) + times("]", deep / 2) + " }}",
            "{{ " + times("-", deep) + "1 }}",
            "{{ " + times("not ", deep) + "1 }}",
            "{{ x" + times("|string", deep) + " }}",
            "{{ ''" + times(".strip()", deep / 2) + " }}",
            "{{ ''" + times("[0:]", deep) + " }}",
            "{{ 1" + times(" if 1 else 1", deep / 3) + " }}",
            times("{% if 1 %}", deep / 2) + times("{% endif %}", deep / 2),
            times("{% set x %}", deep / 2) + times("{% endset %}", deep / 2),
        };
        for (const std::string& source : sources) {
            CAPTURE(source.substr(0, 60));
            if (fine) CHECK(renders(source));
            else CHECK(failure_of(source, {.source = std::size_t{1} << 20}).kind == failure_kind::limit);
        }
    }
    // A long chain is no nesting.
    CHECK(renders("{{ 1" + times(" + 1", 20'000) + " }}"));
    CHECK(renders("{{ 'a'" + times(" ~ 'b'", 20'000) + " }}"));
    CHECK(renders("{{ 0" + times(" or 0", 20'000) + " }}"));
    CHECK(renders("{% if 0 %}" + times("{% elif 0 %}", 5'000) + "{% endif %}"));
    CHECK(failure_of(std::string(300'000, 'a')).kind == failure_kind::limit);
}

TEST_CASE("limits: nesting while it runs") {
    const char* sources[] = {
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% block a %}{{ self.a() }}{% endblock %}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}",
        "{% set ns = namespace(x=1) %}{% for i in range(500) %}{% set ns.x = [ns.x] %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for i in range(500) %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(500) %}{% set ns.x = ns.x | map('string') %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(500) %}{% set ns.x = ns.x | batch(1) %}{% endfor %}",
        "{% set ns = namespace(x=cycler(1)) %}{% for i in range(500) %}{% set ns.x = cycler(ns.x) %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for i in range(500) %}{% set ns.x = [ns.x].copy %}{% endfor %}",
    };
    for (const char* source : sources) {
        CAPTURE(source);
        CHECK(failure_of(source).kind == failure_kind::limit);
    }
}

TEST_CASE("limits: memory and sizes") {
    const char* sources[] = {
        "{{ 'x' * 10 ** 12 }}",
        "{{ [0] * 10 ** 12 }}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s='xx') %}{% for i in range(99) %}{% set ns.s = ns.s | replace('x', ns.s) %}{% endfor %}",
        "{% set ns = namespace(s='xx') %}{% for i in range(99) %}{% set ns.s = ns.s | list | join(ns.s) %}{% endfor %}",
        "{% set ns = namespace(s='xx') %}{% for i in range(99) %}{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% endfor %}",
        "{% set ns = namespace(s='\"') %}{% for i in range(99) %}{% set ns.s = ns.s | tojson %}{% endfor %}",
        "{% set ns = namespace(s=1) %}{% for i in range(50) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=1) %}{% for i in range(50) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | tojson }}",
        "{{ 'x'.center(10 ** 12) }}",
        "{{ '%1000000000000d' % 1 }}",
        "{{ '%.1000000000000f' % 1 }}",
        "{{ '%*d' % (10 ** 12, 1) }}",
        "{{ '{:1000000000000}'.format(1) }}",
        "{{ [1] | tojson(indent=10 ** 12) }}",
        "{{ [1] | batch(10 ** 12, 'x') | list }}",
        "{{ [1] | slice(10 ** 12) | list }}",
        "{{ 'a\nb' | indent(10 ** 12) }}",
        "{{ 'a\tb'.expandtabs(10 ** 12) }}",
        "{{ range(100001) }}",
        "{{ 10 ** 10 ** 10 }}",
        "{{ 10.0 ** 400 }}",
        "{{ 9223372036854775807 + 1 }}",
        "{{ -9223372036854775807 - 2 }}",
        "{{ 9223372036854775807 * 2 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ -(-9223372036854775807 - 1) }}",
        "{{ 1e300 | int }}",
        "{{ '9223372036854775808' | int }}",
        "{{ 99999999999999999999 }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
        "{% for b in range(99999) %}{% for a in range(99999) if a < 0 %}{% endfor %}{% endfor %}",
        "{{ range(99999) | map('string') | map('upper') | unique | sort | groupby(0) | list | tojson }}",
    };
    for (const char* source : sources) {
        CAPTURE(source);
        CHECK(failure_of(source).kind == failure_kind::limit);
    }
    CHECK(failure_of("{{ 'x' * 2000 }}{{ 'y' * 2000 }}", {.output = 3000}).kind == failure_kind::limit);
    CHECK(renders("{{ 'x' * 2000 }}", {.output = 3000}));
    CHECK(failure_of("{% set a = 'x' * 50000 %}", {.memory = 40'000}).kind == failure_kind::limit);
    // What is no longer used counts no longer.
    CHECK(renders("{% for i in range(50) %}{% set a = 'x' * 50000 %}{% endfor %}", {.memory = 200'000}));
}

TEST_CASE("limits: more steps for larger conversations") {
    limits few;
    few.steps = 1000;
    few.steps_per_value = 100;
    const std::string source = "{% for a in l %}{% for b in range(20) %}{% endfor %}{% endfor %}";
    std::vector<value> items(100);
    CHECK(renders(source, few, value::object({{"l", value::list(items)}})));
    few.steps_per_value = 0;
    CHECK(failure_of(source, few, value::object({{"l", value::list(items)}})).kind == failure_kind::limit);
}

TEST_CASE("limits: values that hold themselves are let go") {
    // The address sanitizer's leak check looks at what these leave behind.
    const char* sources[] = {
        "{% set ns = namespace() %}{% set ns.self = ns %}ok",
        "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = [b, {'x': b}] %}ok",
        "{% set ns = namespace() %}{% macro f() %}{% endmacro %}{% set ns.f = f %}{% set ns.m = ns.f %}ok",
        "{% set ns = namespace() %}{% for x in [ns] %}{% set ns.loop = loop %}{{ loop.changed(loop) }}{% endfor %}ok",
        "{% set ns = namespace() %}{% for x in [1] %}{{ loop.changed(loop.changed) }}{% set ns.c = loop.cycle %}{% endfor %}ok",
        "{% set ns = namespace() %}{% set ns.u = [ns] | unique(attribute='u') %}{{ ns.u | list | length }}ok",
        "{% set ns = namespace() %}{% set ns.c = cycler(ns) %}{{ ns.c.next() is defined }}ok",
        "{% set ns = namespace() %}{% set ns.i = [ns] | map(attribute='i') %}ok",
    };
    for (const char* source : sources) {
        CAPTURE(source);
        CHECK(renders(source));
    }
    // A long chain of namespaces falls apart one by one.
    CHECK(renders("{% set ns = namespace(last=namespace()) %}{% for i in range(20000) %}{% set n = namespace() %}"
                  "{% set old = ns.last %}{% set old.next = n %}{% set ns.last = n %}{% endfor %}ok"));
}

TEST_CASE("limits: a failing template names the line it was in") {
    CHECK(failure_of("a\n\n{{ nope.x }}").line == 3);
    CHECK(failure_of("{% for x in [1] %}\n{{ x }}\n{{ x | nope if x else x.y() }}\n{% endfor %}").line == 3);
    CHECK(failure_of("{% macro f() %}\n\n{{ raise_exception('x') }}{% endmacro %}\n{{ f() }}").line == 3);
    const auto parsed = program::parse("\n{{ nope.x }}").value();
    CHECK(parsed.render(value::object({})).error().text() == "the chat template failed in line 2: 'nope' is undefined");
    CHECK(program::parse("\n{{ x").error().code == errc::template_syntax);
    const auto raised = program::parse("{{ raise_exception('no \x1b[31m') }}").value().render(value::object({}));
    CHECK(raised.error().code == errc::template_runtime);
    CHECK(raised.error().message == "the chat template refuses this conversation: no \\x1b[31m");
}

TEST_CASE("program: many threads may render one program with the same values") {
    const auto parsed = program::parse("{% for m in messages %}{{ m.content | upper }}{{ loop.index }}{% endfor %}").value();
    std::vector<value> messages(200, value::object({{"content", "x"}}));
    const value variables = value::object({{"messages", value::list(messages)}});
    const std::string expected = parsed.render(variables).value().text;
    std::vector<std::thread> threads;
    std::vector<int> same(4, 0);
    for (std::size_t t = 0; t < same.size(); ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20; ++i) same[t] += parsed.render(variables).value().text == expected ? 1 : 0;
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(same == std::vector<int>(4, 20));
}
