// The language, feature by feature. What is expected is what jinja2 3.1.6 gives, set up as for chat templates.
#include <doctest/doctest.h>

#include <string>

#include "colibri/chat/jinja/json.hpp"
#include "colibri/chat/jinja/program.hpp"

namespace {

using colibri::jinja::failure;
using colibri::jinja::value;

struct snippet {
    const char* source;
    const char* output;
};
struct failing {
    const char* source;
    const char* kind;
};
struct broken {
    const char* source;
    std::size_t line;  ///< 0: jinja2 finds this mistake without a line
};

value variables() {
    return colibri::jinja::parse_json(R"json({
        "d": {"b": 1, "A": "x", "items": [1]},
        "l": [3, 1, 2],
        "m": [{"role": "user", "n": 2}, {"role": "assistant", "n": 1}, {"role": "user", "n": 3}],
        "s": "Hello World",
        "u": "é世👍 ß",
        "t": [{"n": "a", "kids": [{"n": "b", "kids": []}, {"n": "c", "kids": [{"n": "d", "kids": []}]}]}],
        "z": -0.0,
        "ws": " \t a  b\n\nc \n"
    })json")
        .value();
}

struct outcome {
    std::string text;
    failure why;
    bool failed = false;
};

outcome run(const char* source) {
    outcome out;
    const auto program = colibri::jinja::program::parse(source, {}, &out.why);
    if (!program) return out.failed = true, out;
    const auto text = program->render(variables(), {colibri::jinja::civil_time{2026, 7, 4, 15, 6, 7}, {}}, &out.why);
    if (!text) return out.failed = true, out;
    out.text = text->text;
    return out;
}

constexpr snippet snippets[] = {
    {"{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
     "32"},
    {"{% for x in l %}{{ loop.index }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }} {% endfor %}",
     "1323 2213 3103 "},
    {"{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{{ loop.last }} {% endfor %}",
     "32False 22True "},
    {"{% for x in m | map(attribute='n') %}{{ x }}{{ loop.length }}{{ loop.last }} {% endfor %}",
     "23False 13False 33True "},
    {"{% for x in t recursive %}{{ x.n }}{{ loop.depth }}{% if x.kids %}({{ loop(x.kids) }}){% endif %}{% endfor %}",
     "a1(b2c2(d3))"},
    {"{% for x in l %}{{ loop.cycle('odd', 'even') }}{{ loop.changed(x > 1) }} {% endfor %}",
     "oddTrue evenTrue oddTrue "},
    {"{% for x in l %}{% for y in l %}{% break %}{% endfor %}{{ x }}{% endfor %}",
     "312"},
    {"{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
     "123"},
    {"{% for x in l %}{{ loop }}{% endfor %}",
     "<LoopContext 1/3><LoopContext 2/3><LoopContext 3/3>"},
    {"{% set ns = namespace(go=true) %}{% for x in l if ns.go %}{{ x }}{% set ns.go = false %}{% endfor %}",
     "3"},
    {"{% set x = 0 %}{% for i in l %}{{ x }}{% set x = i %}{% endfor %}{{ x }}",
     "0000"},
    {"{% for i in l %}{% if i == 3 %}{% set y = 'a' %}{% endif %}[{{ y }}]{% endfor %}",
     "[a][][]"},
    {"{% if true %}{% set y = 1 %}{% endif %}{{ y }}",
     "1"},
    {"{% with a = 1, b = 2 %}{% set c = a + b %}{{ c }}{% endwith %}[{{ c }}]",
     "3[]"},
    {"{% set a = 7 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}",
     "17"},
    {"{% filter upper | replace('B', 'x') %}abc{% endfilter %}",
     "AxC"},
    {"{% set q | trim | upper %} abc {% endset %}[{{ q }}]",
     "[ABC]"},
    {"{% set a, b = 'xy' %}{{ b }}{{ a }}",
     "yx"},
    {"{% set ns = namespace({'a': 1}, b=2) %}{% set ns.a, ns.c = 5, 6 %}{{ ns.a }}{{ ns.b }}{{ ns.c }} {{ ns }}",
     "526 <Namespace {'a': 5, 'b': 2, 'c': 6}>"},
    {"{% macro f(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }} {{ f(1, 2, 3, 4) }} {{ f(b=5, x=1) }}",
     "1B1(){} 123(4,){} 5(){'x': 1}"},
    {"{% macro f() %}{{ caller(1) }}-{{ caller(2) }}{% endmacro %}{% call(x) f() %}<{{ x }}>{% endcall %}",
     "<1>-<2>"},
    {"{% macro f(a) %}{% if a %}{{ a }}{{ f(a[1:]) }}{% endif %}{% endmacro %}{{ f('abc') }}",
     "abcbcc"},
    {"{% for i in l %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}",
     "312"},
    {"{% macro f(a=a) %}[{{ a }}]{% endmacro %}{{ f() }}",
     "[]"},
    {"{% block x %}a{{ 1 }}{% endblock %}{{ self.x() }}",
     "a1a1"},
    {"{% autoescape true %}{{ '<' }}{{ '<' | safe }}{% endautoescape %}{{ '<' }}",
     "&lt;<<"},
    {"{% print 1, 'a' %}",
     "1a"},
    {"{% raw %}{{ x }}{% endraw %}{{ 1 }}",
     "{{ x }}1"},
    {"{% if false %}{{ x | nosuch }}{{ x is nosuch }}{% endif %}ok",
     "ok"},
    {"{{ 'a' if false }}|{{ 'a' if true }}|{{ ('a' if false) is undefined }}",
     "|a|True"},
    {"{{ 1 if 0 else 2 if 0 else 3 }}",
     "3"},
    {"{{ 1 < 2 < 3 != 4 }} {{ 1 < 3 < 2 }} {{ not 1 == 2 }} {{ not not 1 }}",
     "True False True True"},
    {"{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 / 4 }} {{ 2 ** -1 }} {{ 7 // 2.0 }}",
     "64 4 -4 2 -2 3.0 0.5 0.25 0.5 3.0"},
    {"{{ true + 1 }} {{ true == 1 }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ [1, 2] == [1, 2.0] }} {{ (1,) == [1] }} {{ {'a': 1} == {'a': 1.0} }}",
     "2 True True False True False True"},
    {"{{ {1: 'a', true: 'b', 1.0: 'c'} }} {{ {1: 'a'}[true] }} {{ {(1, 2): 3}[(1, 2)] }}",
     "{1: 'c'} a 3"},
    {"{{ [1, 2] + [3] }} {{ (1,) + (2,) }} {{ [1] * 2 }} {{ 'ab' * 2 }} {{ 2 * 'ab' }} {{ 'x' * -1 }}",
     "[1, 2, 3] (1, 2) [1, 1] abab abab "},
    {"{{ 'b' in 'abc' }} {{ 2 in l }} {{ 'b' in d }} {{ 2 not in l }} {{ '' in '' }} {{ 1 in range(3) }}",
     "True True True False True True"},
    {"{{ l[1:] }} {{ l[::-1] }} {{ s[1:8:3] }} {{ u[1:3] }} {{ u[-2:] }} {{ range(9)[2:8:3] }} {{ (1, 2, 3)[:2] }} {{ l[-99:99] }} {{ l[5:1:-2] }}",
     "[1, 2] [2, 1, 3] eoo 世👍  ß range(2, 8, 3) (1, 2) [3, 1, 2] [2]"},
    {"{{ d.items() | list }} {{ d['items'] }} {{ d.b }} {{ d.A }} {{ d.nope is undefined }} {{ d.get('q', 5) }} {{ d.keys() | list }} {{ d.values() | list }}",
     "[('b', 1), ('A', 'x'), ('items', [1])] [1] 1 x True 5 ['b', 'A', 'items'] [1, 'x', [1]]"},
    {"{{ l.0 }} {{ l[-1] }} {{ l[7] is defined }} {{ l['x'] is defined }} {{ s[0] }} {{ s.nope is defined }}",
     "3 2 False False H False"},
    {"{{ d }} {{ (1,) }} {{ ('a', none, true) }} {{ {'k': [1, {'z': ()}]} }} {{ d.items() }} {{ d.keys() }} {{ range(3) }} {{ range(1, 9, 2) }}",
     "{'b': 1, 'A': 'x', 'items': [1]} (1,) ('a', None, True) {'k': [1, {'z': ()}]} dict_items([('b', 1), ('A', 'x'), ('items', [1])]) dict_keys(['b', 'A', 'items']) range(0, 3) range(1, 9, 2)"},
    {"{{ ['it''s', \"it's\", 'q\"q', 'a\\\\b\\n\\t\\x00\\x7f', 'é\\u200b\\u2028\\U000e0001'] }}",
     "['its', \"it's\", 'q\"q', 'a\\\\b\\n\\t\\x00\\x7f', 'é\\u200b\\u2028\\U000e0001']"},
    {"{{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e15 }} {{ 1.5e-5 }} {{ 1e-4 }} {{ 123456789012345678.0 }} {{ z }} {{ 1e308 * 10 }} {{ -1e308 * 10 }} {{ 5e-324 }}",
     "1.0 0.30000000000000004 1e+16 1000000000000000.0 1.5e-05 0.0001 1.2345678901234568e+17 -0.0 inf -inf 5e-324"},
    {"{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 00 }} {{ 1.5E3 }} {{ 1_0.2_5 }}",
     "31 5 15 1000 0 1500.0 10.25"},
    {"{{ 'a' 'b' \"c\" }} {{ 'a\\x41\\u00e9\\101\\q' }}",
     "abc aAéA\\q"},
    {"{{ s | upper }} {{ s | lower }} {{ 'hELLO wORLD' | capitalize }} {{ \"it's o-k (yes)\" | title }} {{ \"it's o-k\".title() }} {{ s.swapcase() }}",
     "HELLO WORLD hello world Hello world It's O-K (Yes) It'S O-K hELLO wORLD"},
    {"{{ 'ß ŉ ﬁ ǆ İ' | upper }} {{ 'İ ΑΣ ΣΑ Σ' | lower }} {{ 'ǆa ßa' | capitalize }} {{ 'ῳ' | upper }}",
     "SS ʼN FI Ǆ İ i̇ ας σα σ ǅa ßa ΩΙ"},
    {"{{ ws | trim }}|{{ ws.strip() }}|{{ ws.lstrip() }}|{{ ws.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xyaxy' | trim('xy') }}|{{ '\\u2003a\\u00a0\\x1f' | trim }}|",
     "a  b\n\nc|a  b\n\nc|a  b\n\nc \n| \011 a  b\n\nc|a|a|a|"},
    {"{{ ws.split() }} {{ ws.split(None, 1) }} {{ ws.rsplit(None, 1) }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ''.split() }} {{ ''.split(',') }}",
     "['a', 'b', 'c'] ['a', 'b\\n\\nc \\n'] [' \\t a  b', 'c'] ['a', 'b', '', 'c'] ['a', 'b,c'] ['a,b', 'c'] [] ['']"},
    {"{{ 'a\\nb\\r\\nc\\rd\\x0be\\u2028f'.splitlines() }} {{ 'a\\n'.splitlines(true) }} {{ '\\n\\n'.splitlines() }}",
     "['a', 'b', 'c', 'd', 'e', 'f'] ['a\\n'] ['', '']"},
    {"{{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.find('x') }} {{ u.find('👍') }} {{ 'abcabc'.find('a', 1) }} {{ 'aaa'.count('a') }} {{ 'aaa'.count('') }} {{ 'abc'.index('c') }}",
     "2 5 -1 2 3 3 4 2"},
    {"{{ 'abc'.startswith('ab') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('bc', 1) }} {{ 'abc'.startswith('b', 1) }} {{ ''.startswith('') }}",
     "True True True True True"},
    {"{{ 'a-b-c'.replace('-', '+') }} {{ 'a-b-c'.replace('-', '+', 1) }} {{ 'ab'.replace('', '.') }} {{ 'ab' | replace('', '.', 2) }} {{ 123 | replace('2', 'x') }}",
     "a+b+c a+b-c .a.b. .a.b 1x3"},
    {"{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }} {{ 'abc'.removeprefix('ab') }} {{ 'abc'.removesuffix('x') }}",
     "('a', '=', 'b=c') ('a=b', '=', 'c') ('abc', '', '') ('', '', 'abc') c abc"},
    {"[{{ 'ab'.center(5) }}] [{{ 'abc'.center(6) }}] [{{ 'ab'.ljust(4, '.') }}] [{{ 'ab'.rjust(4) }}] [{{ '-5'.zfill(4) }}] [{{ 'ab' | center(7) }}] [{{ 'a\\tb'.expandtabs(4) }}]",
     "[  ab ] [ abc  ] [ab..] [  ab] [-005] [   ab  ] [a   b]"},
    {"{{ 'abc'.isalpha() }} {{ 'a1'.isalnum() }} {{ '12'.isdigit() }} {{ ' '.isspace() }} {{ 'A'.isupper() }} {{ 'a'.islower() }} {{ 'Ab Cd'.istitle() }} {{ 'a b'.isidentifier() }} {{ 'é'.isascii() }} {{ ''.isalpha() }} {{ 'é世'.isalpha() }} {{ '\\n'.isprintable() }}",
     "True True True True True True True False False False True False"},
    {"{{ ', '.join(['a', 'b']) }} {{ l | join('-') }} {{ m | join(',', attribute='role') }} {{ [] | join }} {{ ['a', 1, none] | join(1) }}",
     "a, b 3-1-2 user,assistant,user  a111None"},
    {"{{ '%s %d %5d|%-5d|%05d %.2f %x %X %o %c %r %% %i %+d %e %g %s' % ('a', 1, 2, 3, 4, 5.0, 255, 255, 8, 'z', 'q', 7, 8, 12345.678, 0.0001, none) }}",
     "a 1     2|3    |00004 5.00 ff FF 10 z 'q' % 7 +8 1.234568e+04 0.0001 None"},
    {"{{ '%(a)s-%(b)03d' % {'a': 'x', 'b': 5} }} {{ '%s' % l }} {{ '%s' % (l,) }} {{ '%*d' % (5, 42) }} {{ '%.3s|%5.1s|' % ('abcdef', 'xyz') }} {{ '%s-%s' | format('a', 2) }} {{ '%(x)s' | format(x=1) }}",
     "x-005 [3, 1, 2] [3, 1, 2]    42 abc|    x| a-2 1"},
    {"{{ '{} {} {}'.format(1, 'a', none) }} {{ '{1}{0}{1}'.format('a', 'b') }} {{ '{a}{b[0]}{c[k]}'.format(a=1, b=[2], c={'k': 3}) }} {{ '{{}}{:>5}|{:<5}|{:^5}|{:*^5}|'.format(1, 'a', 'b', 'c') }}",
     "1 a None bab 123 {}    1|a    |  b  |**c**|"},
    {"{{ '{:5}|{:05}|{:+}|{:,}|{:_}|{:x}|{:#x}|{:b}|{:o}|{:c}'.format(1, -2, 3, 1234567, 1234567, 255, 255, 5, 8, 65) }} {{ '{:.2f} {:e} {:g} {:%} {:.3} {:10.3f}| {:,.1f} {:}'.format(1.005, 12345.678, 0.00001, 0.25, 1.23456, 2.5, 12345.67, 1.0) }} {{ '{!r:>5} {!s}'.format('a', 'b') }} {{ '{:{}}|'.format('a', 4) }}",
     "    1|-0002|+3|1,234,567|1_234_567|ff|0xff|101|10|A 1.00 1.234568e+04 1e-05 25.000000% 1.23      2.500| 12,345.7 1.0   'a' b a   |"},
    {"{{ d | dictsort }} {{ d | dictsort(true) }} {{ {'a': 2, 'b': 1} | dictsort(by='value', reverse=true) }}",
     "[('A', 'x'), ('b', 1), ('items', [1])] [('A', 'x'), ('b', 1), ('items', [1])] [('a', 2), ('b', 1)]"},
    {"{{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ l | sort(reverse=true) }} {{ m | sort(attribute='role,n') | map(attribute='n') | list }} {{ [[2, 1], [1, 9]] | sort }}",
     "['A', 'b', 'c'] ['A', 'b'] [3, 2, 1] [1, 2, 3] [[1, 9], [2, 1]]"},
    {"{{ m | groupby('role') }} {{ m | groupby('role') | map(attribute='grouper') | list }} {% for g in m | groupby('role') %}{{ g.grouper }}{{ g.list | length }}{% endfor %}",
     "[('assistant', [{'role': 'assistant', 'n': 1}]), ('user', [{'role': 'user', 'n': 2}, {'role': 'user', 'n': 3}])] ['assistant', 'user'] assistant1user2"},
    {"{{ m | selectattr('role', 'eq', 'user') | map(attribute='n') | list }} {{ m | rejectattr('n', 'gt', 1) | list | length }} {{ l | select('odd') | list }} {{ l | reject('in', [1]) | list }} {{ ['', 'a', none] | select | list }} {{ none | select | list }}",
     "[2, 3] 1 [3, 1] [3, 2] ['a'] []"},
    {"{{ l | map('string') | list }} {{ ['a ', ' b'] | map('trim') | join }} {{ m | map(attribute='q', default='-') | list }} {{ [[1, 2], [3, 4]] | map(attribute=1) | list }} {{ [{'a': {'b': [7]}}] | map(attribute='a.b.0') | list }} {{ ['x'] | map('replace', 'x', 'y') | list }}",
     "['3', '1', '2'] ab ['-', '-', '-'] [2, 4] [7] ['y']"},
    {"{{ l | first }} {{ l | last }} {{ [] | first is defined }} {{ l | min }} {{ l | max }} {{ m | max(attribute='n') }} {{ ['b', 'A'] | min }} {{ l | sum }} {{ m | sum(attribute='n') }} {{ l | sum(start=10) }} {{ 'abc' | last }}",
     "3 2 False 1 3 {'role': 'user', 'n': 3} A 6 6 16 c"},
    {"{{ [1, 1.0, true, 'a', 'A'] | unique | list }} {{ m | unique(attribute='role') | map(attribute='n') | list }} {{ l | reverse | list }} {{ 'abc' | reverse }} {{ d | reverse | list }}",
     "[1, 'a'] [2, 1] [2, 1, 3] cba ['items', 'A', 'b']"},
    {"{{ range(7) | batch(3) | list }} {{ range(7) | batch(3, '-') | list }} {{ range(7) | slice(3) | list }} {{ range(7) | slice(3, '-') | list }}",
     "[[0, 1, 2], [3, 4, 5], [6]] [[0, 1, 2], [3, 4, 5], [6, '-', '-']] [[0, 1, 2], [3, 4], [5, 6]] [[0, 1, 2], [3, 4, '-'], [5, 6, '-']]"},
    {"{{ '42' | int }} {{ '0x1A' | int(base=16) }} {{ 'zz' | int(7) }} {{ '3.9' | int }} {{ ' -5 ' | int }} {{ 3.99 | int }} {{ none | int }} {{ '1_0' | int }} {{ '1.5' | float }} {{ 'x' | float(2.5) }} {{ true | int }} {{ '1e3' | float }} {{ 'inf' | float }}",
     "42 26 7 3 -5 3 0 10 1.5 2.5 1 1000.0 inf"},
    {"{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 1234.5 | round(-2) }} {{ 1250 | round(-2) }} {{ 2.1 | round(0, 'ceil') }} {{ -2.1 | round(method='floor') }} {{ 7 | round(2) }} {{ -3 | abs }} {{ 2.345 | round(1) }}",
     "2.0 4.0 2.67 1200.0 1200 3.0 -3.0 7 3 2.3"},
    {"{{ x | default('a') }} {{ '' | default('a') }} {{ '' | default('a', true) }} {{ none | d('a') }} {{ false | d('a', boolean=true) }}",
     "a  a None a"},
    {"{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent(2, blank=true) }}|{{ 'a\\nb' | indent('> ', first=true) }}|{{ 'a\\n' | indent(2) }}|{{ '' | indent(2, true) }}|",
     "a\n    b\n\n    c|  a\n  b|a\n  \n  b|> a\n> b|a\n|  |"},
    {"{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo bar baz qux' | truncate(11) }} {{ 'foo bar baz qux' | truncate(11, leeway=0) }} {{ 'foo bar baz' | truncate(5, end='') }} {{ 'é世👍 ßabcdefg' | truncate(5, true, '', 0) }}",
     "foo... foo ba... foo bar baz qux foo bar... foo é世👍 ß"},
    {"{{ '<a href=\"x\">T &amp; t</a>  <!-- c --> b' | striptags }} {{ 'a b/ü?&=' | urlencode }} {{ {'a b': 'c&d', 'e': 1} | urlencode }} {{ 'one two, three-four' | wordcount }}",
     "T & t b a%20b/%C3%BC%3F%26%3D a+b=c%26d&e=1 4"},
    {"{{ '<&>\"\\'' | e }} {{ '<' | e | e }} {{ '<' | safe | e }} {{ '<' | e | forceescape }} {{ ('<' | safe) + '<' }} {{ '<' + ('<' | safe) }} {{ ('<' | safe) ~ '<' }} {{ '<' | e is escaped }} {{ '<' is escaped }}",
     "&lt;&amp;&gt;&#34;&#39; &lt; < &amp;lt; <&lt; &lt;< << True False"},
    {"{{ d | tojson }} {{ d | tojson(indent=2) }} {{ d | tojson(sort_keys=true) }} {{ d | tojson(separators=(',', ':')) }} {{ 'é\\u2028<' | tojson }} {{ 'é👍\\x7f' | tojson(ensure_ascii=true) }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ [1, [2, {}], []] | tojson(indent='\\t') }} {{ (1, 2) | tojson }} {{ 1e400 | tojson }}",
     "{\"b\": 1, \"A\": \"x\", \"items\": [1]} {\n  \"b\": 1,\n  \"A\": \"x\",\n  \"items\": [\n    1\n  ]\n} {\"A\": \"x\", \"b\": 1, \"items\": [1]} {\"b\":1,\"A\":\"x\",\"items\":[1]} \"é\342\200\250<\" \"\\u00e9\\ud83d\\udc4d\\u007f\" {\"1\": 4, \"null\": 3, \"1.5\": 5} [\n\0111,\n\011[\n\011\0112,\n\011\011{}\n\011],\n\011[]\n] [1, 2] Infinity"},
    {"{{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ 1 is number }} {{ true is number }} {{ 'a' is string }} {{ d is mapping }} {{ l is sequence }} {{ 'a' is sequence }} {{ d is sequence }} {{ 1 is iterable }} {{ q is iterable }} {{ range(2) is sequence }} {{ none is none }} {{ true is true }} {{ 1 is true }}",
     "True False True True True True True True True True False True True True True False"},
    {"{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 1 is ne 2 }} {{ 2 is gt 1 }} {{ 1 is in l }} {{ 9 is not in l }} {{ 'A' is upper }} {{ 'a' is lower }} {{ range is callable }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ none is sameas none }} {{ 1 is sameas true }}",
     "True True True False True True True True True True True True True True True False"},
    {"{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }} {% set j = joiner('|') %}{{ j() }}1{{ j() }}2{{ j() }}3",
     "ababNonea 1|2|3"},
    {"{{ dict(a=1, **{'b': 2}) }} {{ dict([('a', 1)]) }} {{ dict({'x': 1}, y=2) }} {{ range(*[1, 4]) | list }} {{ range(5, 0, -2) | list }} {{ (5).bit_length() }} {{ (2.0).is_integer() }} {{ 5.real }} {{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }} {{ l.copy() }}",
     "{'a': 1, 'b': 2} {'a': 1} {'x': 1, 'y': 2} [1, 2, 3] [5, 3, 1] 3 True 5 2 1 [3, 1, 2]"},
    {"{{ strftime_now('%Y-%m-%d %H:%M:%S %A %a %B %b %j %p %I %y %e %-d %-m %U %W %V %G %u %w %D %F %T %R %% %c %x %X %Z|%z|%f %q') }}",
     "2026-07-04 15:06:07 Saturday Sat July Jul 185 PM 03 26  4 4 7 26 26 27 2026 6 6 07/04/26 2026-07-04 15:06:07 15:06 % Sat Jul  4 15:06:07 2026 07/04/26 15:06:07 ||000000 %q"},
    {"{{ x == y }} {{ x == none }} {{ x is defined }} {{ x }}{{ x | length }}{% for c in x %}a{% endfor %} {{ x ~ 'a' }} {{ x | list }} {{ [x] }} {{ not x }} {{ x | string }} {{ x in [y] }}",
     "True False False 0 a [] [Undefined] True  True"},
    {"{{ ''.__class__ }}|{{ x.__class__ }}|{{ {'__class__': 1}.__class__ }}|{{ '' | attr('__class__') }}|{{ __builtins__ }}|{{ self }}|{{ '{0.__class__}'.format('a') }}|",
     "|||||<TemplateReference None>||"},
    {"{{ (1, 2) | list }} {{ 'é世' | list }} {{ d | list }} {{ 'abc'[1] }} {{ 'abc'[-1:] }} {{ u | length }} {{ u | reverse }} {{ u[::-1] }}",
     "[1, 2] ['é', '世'] ['b', 'A', 'items'] b c 5 ß 👍世é ß 👍世é"},
    {"{{ [1, 2, 3] | select('gt', 1) | map('string') | join('+') }} {{ ([1, 2] | map('string') | list)[0] }} {% set it = l | map('string') %}{{ it | join }}{{ it | join }}",
     "2+3 1 312"},
    {"a {#- c -#} b {# {{ x }} #}c {{- 'd' -}} e",
     "ab cde"},
    {"{%- if true %} a {%- endif %} b",
     " a b"},
    {"{%+ if true %}a{%+ endif %}",
     "a"},
};

constexpr failing failures[] = {
    {"{{ a.b }}", "undefined"},
    {"{{ 'a' + nope }}", "undefined"},
    {"{{ nope() }}", "undefined"},
    {"{{ nope < 1 }}", "undefined"},
    {"{{ -nope }}", "undefined"},
    {"{{ nope[1:] }}", "undefined"},
    {"{{ d.x.y }}", "undefined"},
    {"{{ none.x.y }}", "undefined"},
    {"{{ 'a'.nosuch() }}", "undefined"},
    {"{{ 'a' + 1 }}", "type"},
    {"{{ [1] + (2,) }}", "type"},
    {"{{ 1 < 'a' }}", "type"},
    {"{{ none | length }}", "type"},
    {"{% for x in none %}{% endfor %}", "type"},
    {"{% for a, b in [1] %}{% endfor %}", "type"},
    {"{% for a, b in [[1]] %}{% endfor %}", "type"},
    {"{{ 1 / 0 }}", "type"},
    {"{{ 5 % 0 }}", "type"},
    {"{{ {[1]: 2} }}", "type"},
    {"{{ 'abc'.split('') }}", "type"},
    {"{{ 'abc'.index('x') }}", "type"},
    {"{{ '%d' % 'a' }}", "type"},
    {"{{ '%s %s' % ('a',) }}", "type"},
    {"{{ '%s' % ('a', 'b') }}", "type"},
    {"{{ '{} {}'.format(1) }}", "type"},
    {"{{ '{x}'.format(1) }}", "type"},
    {"{{ nope | tojson }}", "type"},
    {"{{ range | tojson }}", "type"},
    {"{{ range('a') }}", "type"},
    {"{{ range(1, 2, 0) }}", "type"},
    {"{{ 'a' | upper('b') }}", "type"},
    {"{{ l | join(nope=1) }}", "type"},
    {"{{ 'a' | replace('b') }}", "type"},
    {"{{ l | map | list }}", "type"},
    {"{{ l | map('nosuch') | list }}", "type"},
    {"{{ l | select('nosuch') | list }}", "type"},
    {"{{ (l | map('string')) | length }}", "type"},
    {"{{ 5 | items | list }}", "type"},
    {"{{ [1, 'a'] | sort }}", "type"},
    {"{{ 1() }}", "type"},
    {"{{ 'a'[1:2:0] }}", "type"},
    {"{{ 1[1:][0] }}", "type"},
    {"{% set d.x = 1 %}", "type"},
    {"{% set nope.x = 1 %}", "type"},
    {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "type"},
    {"{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "type"},
    {"{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}", "type"},
    {"{% include 'x' %}", "type"},
    {"{% import 'x' as y %}", "type"},
    {"{% extends 'x' %}", "type"},
    {"{{ l.append(1) }}", "security"},
    {"{{ d.update({}) }}", "security"},
    {"{{ d.pop('b') }}", "security"},
    {"{{ l.sort() }}", "security"},
    {"{{ ''.__class__.__mro__ }}", "security"},
    {"{{ ''.__class__() }}", "security"},
    {"{{ raise_exception('own ' ~ 1) }}", "raise"},
    {"{{ range(100001) }}", "limit"},
};

constexpr broken mistakes[] = {
    {"{{ 1 + }}", 1},
    {"a\n{{ 'x }}", 2},
    {"{% if %}{% endif %}", 1},
    {"{% if x %}", 1},
    {"{% endif %}", 1},
    {"{% for x in y %}{% endif %}", 1},
    {"{% for x y %}{% endfor %}", 1},
    {"{% set 5 = 1 %}", 1},
    {"{% set a.b.c = 1 %}", 1},
    {"{% set %}", 1},
    {"{{ a b }}", 1},
    {"{{ (1 }}", 1},
    {"{{ [1, 2 }}", 1},
    {"{{ {1: 2 }}", 1},
    {"{{ {1} }}", 1},
    {"{{ ) }}", 1},
    {"{{ (] }}", 1},
    {"{{ x | }}", 1},
    {"{{ x | 5 }}", 1},
    {"{{ x is }}", 1},
    {"{{ x is not }}", 1},
    {"{{ x is y is z }}", 1},
    {"{{ x is == 1 }}", 1},
    {"{{ x. }}", 1},
    {"{{ x[ }}", 1},
    {"{{ f(a=1, 2) }}", 1},
    {"{{ f(**a, 2) }}", 1},
    {"{{ 1 ? 2 }}", 1},
    {"{{ 1 = 2 }}", 1},
    {"{% nosuch %}", 1},
    {"{% do x %}", 1},
    {"{% macro %}{% endmacro %}", 1},
    {"{% macro f(a=1, b) %}{% endmacro %}", 1},
    {"{% macro f() %}", 1},
    {"{% call x %}{% endcall %}", 1},
    {"{% block a-b %}{% endblock %}", 1},
    {"{% raw %}a", 1},
    {"{# a", 1},
    {"{% else %}", 1},
    {"{% endfor %}", 1},
    {"{{ '\\x4' }}", 1},
    {"{{ x|nosuch }}", 1},
    {"{{ x is nosuch }}", 1},
    {"{% if x %}{% for a in b %}{{ a|nosuch }}{% endfor %}{% endif %}", 1},
    {"{% from 'a' import _b %}", 1},
    {"{% break %}", 0},
    {"{% for loop in x %}{% endfor %}", 1},
    {"{% for x in y %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}", 0},
    {"{{ f(a=1, a=2) }}", 0},
    {"{% macro f(a, a) %}{% endmacro %}", 0},
    {"\n\n{{ 7 7 }}", 3},
    {"a\n{{ foo(1,\n 2,\n 3 3) }}", 4},
    {"{%", 1},
    {"{{", 1},
    {"{{ a", 1},
    {"{{ 007 }}", 1},
    {"{% if x }}a{% endif %}", 1},
    {"{{ x %}", 1},
    {"{% autoescape %}{% endautoescape %}", 1},
    {"{% with a %}{% endwith %}", 1},
    {"{% filter %}{% endfilter %}", 1},
    {"{{ true = 1 }}{% set true = 1 %}", 1},
    {"{% for true in x %}{% endfor %}", 1},
};

}  // namespace

TEST_CASE("jinja: snippets print what they should") {
    for (const snippet& each : snippets) {
        const std::string source = each.source, output = each.output;
        CAPTURE(source);
        const outcome got = run(each.source);
        CHECK_MESSAGE(!got.failed, name(got.why.kind) << ": " << got.why.message);
        CHECK(got.text == output);
    }
}

TEST_CASE("jinja: failures have the right kind") {
    for (const failing& each : failures) {
        const std::string source = each.source;
        CAPTURE(source);
        const outcome got = run(each.source);
        REQUIRE(got.failed);
        CHECK_MESSAGE(name(got.why.kind) == each.kind, name(got.why.kind) << ": " << got.why.message);
        CHECK(!got.why.message.empty());
    }
}

TEST_CASE("jinja: mistakes are found in the right line") {
    for (const broken& each : mistakes) {
        const std::string source = each.source;
        CAPTURE(source);
        const outcome got = run(each.source);
        REQUIRE(got.failed);
        CHECK_MESSAGE(name(got.why.kind) == "syntax", name(got.why.kind) << ": " << got.why.message);
        if (each.line != 0) CHECK(got.why.line == each.line);
    }
}
