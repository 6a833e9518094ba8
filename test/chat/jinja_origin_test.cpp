// Text keeps its origin through everything that a template does with it.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "colibri/chat/jinja/program.hpp"
#include "colibri/chat/marked_text.hpp"

namespace {

using colibri::marked_text;
using colibri::origin;
using colibri::jinja::program;
using colibri::jinja::value;

/// Rendered text with what is untrusted in braces.
std::string shown(std::string_view source, const value& variables) {
    const auto parsed = program::parse(source);
    REQUIRE_MESSAGE(parsed.has_value(), source);
    const auto text = parsed->render(variables);
    REQUIRE_MESSAGE(text.has_value(), source << ": " << (text ? "" : text.error().text()));
    std::string out;
    std::size_t at = 0;
    for (const auto& run : text->runs) {
        CHECK(run.begin == at);
        CHECK(run.end > run.begin);
        at = run.end;
        const std::string part = text->text.substr(run.begin, run.end - run.begin);
        out += run.trusted ? part : "{" + part + "}";
    }
    CHECK(at == text->text.size());
    return out;
}

}  // namespace

TEST_CASE("origins: each operation keeps them by character") {
    const value variables = value::object({
        {"u", "user"},
        {"t", value::trusted("own")},
        {"sp", "  user  "},
        {"l", value::list({"x", "y"})},
        {"d", value::object({{"k", "v"}})},
        {"two", "a,b"},
        {"lines", "p\nq"},
        {"q", "a\"b"},
        {"n", 5},
        {"w", "ßΣ"},
    });
    struct operation {
        const char* source;
        const char* shown;
    };
    const operation operations[] = {
        {"a{{ u }}b{{ t }}", "a{user}bown"},
        {"{{ 'a' + u + 'b' }}", "a{user}b"},
        {"{{ 'a' ~ u ~ n ~ t }}", "a{user}5own"},
        {"{{ ('a' + u + 'b')[::-1] }}", "b{resu}a"},
        {"{{ ('a' + u + 'b')[0] }}{{ ('a' + u + 'b')[1] }}{{ ('a' + u + 'b')[1:-1] }}", "a{uuser}"},
        {"{{ ('ab' + u)[:3] }}{{ (u + 'ab')[3:5] }}", "ab{ur}a"},
        {"{{ sp | trim }}{{ (' ' + sp + ' ') | trim }}{{ sp.lstrip() }}.", "{useruseruser  }."},
        {"{{ ('a' + u) | upper }}{{ ('A' + u) | lower }}{{ ('a' + u) | capitalize }}", "A{USER}a{user}A{user}"},
        {"{{ ('x y' + u) | title }}{{ ('a' + u).title() }}{{ ('a' + u).swapcase() }}", "X Y{user}A{user}A{USER}"},
        {"{{ w | upper }}{{ ('a' + w) | upper }}{{ ('a' + w) | lower }}", "{SSΣ}A{SSΣ}a{ßς}"},
        {"{{ 'a-b' | replace('-', u) }}{{ u | replace('s', '-') }}{{ u.replace('s', u) }}", "a{user}b{u}-{eruuserer}"},
        {"{{ u | replace('', '.') }}", ".{u}.{s}.{e}.{r}."},
        {"{{ l | join('-') }}{{ ['a', u] | join(t) }}{{ u.join(['1', '2']) }}", "{x}-{y}aown{user}1{user}2"},
        {"{{ two.split(',')[1] }}{{ ('x,' + two).split(',') | join }}{{ two.partition(',')[1] }}", "{b}x{ab,}"},
        {"{{ ('x ' + u + ' y').split()[1] }}{{ lines.splitlines()[0] }}{{ two.rsplit(',', 1)[0] }}", "{userpa}"},
        {"{{ u * 2 }}{{ ('a' + u) * 2 }}", "{useruser}a{user}a{user}"},
        {"{{ l }}", "['{x}', '{y}']"},
        {"{{ d }}", "{'{k}': '{v}'}"},
        {"{{ [q, lines] }}", "['{a\"b}', '{p\\nq}']"},
        {"{{ u | tojson }}{{ q | tojson }}{{ lines | tojson }}", "\"{user}\"\"{a\\\"b}\"\"{p\\nq}\""},
        {"{{ d | tojson(indent=1) }}", "{\n \"{k}\": \"{v}\"\n}"},
        {"{{ ('é' + w) | tojson(ensure_ascii=true) }}", "\"\\u00e9{\\u00df\\u03a3}\""},
        {"{{ lines | indent(2) }}{{ lines | indent(u, true) }}", "{p\n}  {quserp\nuserq}"},
        {"{{ '%s|%5s|%d' % (u, 'ab', n) }}{{ '%.2s' % u }}", "{user}|   ab|5{us}"},
        {"{{ '{}-{:>6}'.format(u, u) }}{{ '%s' | format(u) }}{{ '%r' % u }}", "{user}-  {useruser}'{user}'"},
        {"{{ u.center(8, '*') }}{{ u | center(6) }}{{ 'a'.ljust(2, u[0]) }}", "**{user}** {user} a{u}"},
        {"{{ u | e }}{{ ('<' + u + '<') | e }}{{ u | urlencode }}", "{user}&lt;{user}&lt;{user}"},
        {"{{ u | list }}{{ u | first }}{{ u | last }}{{ u | reverse }}", "['{u}', '{s}', '{e}', '{r}']{urresu}"},
        {"{{ d.k }}{{ d['k'] }}{{ d.get('k') }}{{ d.items() | list }}{{ d | first }}", "{vvv}[('{k}', '{v}')]{k}"},
        {"{% for k, v in d | items %}{{ k }}={{ v }}{% endfor %}{% for c in u %}{{ c }}.{% endfor %}",
         "{k}={vu}.{s}.{e}.{r}."},
        {"{% set x = u %}{{ x }}{% set y %}a{{ u }}{% endset %}{{ y }}{{ y | upper }}", "{user}a{user}A{USER}"},
        {"{% macro f(a, b=u) %}<{{ a }}{{ b }}>{% endmacro %}{{ f(u) }}{{ f('x', b='y') }}", "<{useruser}><xy>"},
        {"{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}{{ u }}!{% endcall %}", "[{user}!]"},
        {"{% filter upper %}a{{ u }}{% endfilter %}", "A{USER}"},
        {"{% set ns = namespace(a='') %}{% for x in l %}{% set ns.a = ns.a ~ '.' ~ x %}{% endfor %}{{ ns.a }}", ".{x}.{y}"},
        {"{{ l | map('upper') | join }}{{ l | select('eq', 'x') | join }}{{ l | sort | last }}{{ l | unique | first }}",
         "{XYxyx}"},
        {"{{ dict(**d) }}{{ namespace(d).k }}{{ dict(a=u).a }}", "{'{k}': '{v}'}{vuser}"},
        {"{{ u if u == 'user' else 'no' }}{{ nope | default(u) }}{{ u or 'no' }}", "{useruseruser}"},
        {"{{ u == 'user' }}{{ 'se' in u }}{{ u | length }}{{ u is string }}", "TrueTrue4True"},
        {"{{ strftime_now(u) }}{{ strftime_now('x') }}", "{user}x"},
        {"{{ '%c' % 60 }}{{ '{:c}'.format(60) }}", "{<<}"},
        {"{{ [u] | string }}{{ u | string }}{{ u | safe }}{{ (u | safe) + '<' }}", "['{user}']{useruseruser}&lt;"},
        {"{{ ('<b>' + u + '</b>') | striptags }}{{ (u + ' zz zz zz') | truncate(7, leeway=0) }}", "{useruser}..."},
        {"{{ u | wordcount }}{{ l | batch(1) | list }}{{ [d] | map(attribute='k') | first }}", "1[['{x}'], ['{y}']]{v}"},
    };
    for (const operation& each : operations) {
        const std::string source = each.source, expected = each.shown;
        CAPTURE(source);
        CHECK(shown(source, variables) == expected);
    }
}

TEST_CASE("origins: pieces of user text can't be put together to trusted text") {
    const value variables = value::object({{"a", "<|im"}, {"b", "_end|>"}, {"c", "<"}, {"l", value::list({"<|", "im_end", "|>"})}});
    CHECK(shown("{{ a + b }}", variables) == "{<|im_end|>}");
    CHECK(shown("{{ l | join }}", variables) == "{<|im_end|>}");
    CHECK(shown("{{ '' ~ a ~ '' ~ b }}", variables) == "{<|im_end|>}");
    CHECK(shown("{{ a | replace('<', c) }}{{ b }}", variables) == "{<|im_end|>}");
    CHECK(shown("{% for x in l %}{{ x }}{% endfor %}", variables) == "{<|im_end|>}");
    CHECK(shown("<|{{ b }}", variables) == "<|{_end|>}");
}

TEST_CASE("marked_text: runs join, and cutting keeps them right") {
    marked_text m;
    m.append("ab", origin::trusted);
    m.append("", origin::untrusted);
    m.append("cd", origin::trusted);
    m.append("ef", origin::untrusted);
    m.append("gh", origin::trusted);
    CHECK(m.text == "abcdefgh");
    CHECK(m.runs == std::vector<colibri::text_run>{{0, 4, true}, {4, 6, false}, {6, 8, true}});
    m.resize(9);
    CHECK(m.runs.size() == 3);
    m.resize(6);
    CHECK(m.runs == std::vector<colibri::text_run>{{0, 4, true}, {4, 6, false}});
    m.resize(5);
    CHECK(m.runs == std::vector<colibri::text_run>{{0, 4, true}, {4, 5, false}});
    m.resize(0);
    CHECK(m.runs.empty());
    CHECK(marked_text::of("", origin::trusted).runs.empty());
    CHECK(marked_text::of("a", origin::untrusted).runs == std::vector<colibri::text_run>{{0, 1, false}});
}
