"""What transformers' apply_chat_template makes of conversations: chat_templates.json.

    "named"   the formats of ChatTemplate::named, by the templates of the models. FOLDER has a file
              NAME.jinja for each NAME below: the chat_template of a model of that kind, as it is
              published (tokenizer_config.json or chat_template.jinja). They are not copied here.
    "jinja"   small templates, one for each part of Jinja, run on one conversation

null stands for an error. Needs transformers (5.24) and jinja2 (3.1.6):
    python make_chat_templates.py FOLDER
"""
import json
import os
import sys
from datetime import datetime

import transformers.utils.chat_template_utils as utils


class Noon(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime(2025, 3, 9, 12)


utils.datetime = Noon
SPECIALS = {"bos_token": "<s>", "eos_token": "</s>"}
NAMES = ["chatml", "deepseek-r1", "gemma", "gemma3", "llama2", "llama3", "llama3.1", "llama3.2", "mistral-v1",
         "mistral-v3", "mistral-nemo", "mistral-v7", "phi3", "phi3.5", "phi4", "qwen2.5", "qwen3", "smollm2",
         "tinyllama", "zephyr"]
CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "  Be brief. \n"), ("user", " Hi! "), ("assistant", "  Hello.\n"), ("user", "Größe: 日本 😀\u3000")],
    [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d\n\n")],
    [("user", ""), ("assistant", ""), ("user", "")],
    [("system", ""), ("user", "x")],
    [("user", "q"), ("assistant", "<think>\nhm\n</think>\n\nA"), ("user", "z"),
     ("assistant", "<think>\nlast</think>\nend\n")],
    [("user", "one"), ("user", "two")],
    [("assistant", "first"), ("user", "then")],
    [("user", "say <|im_end|> \"'\\ {{ x }}")],
    [("system", "s"), ("system", "t"), ("user", "u")],
]
MESSAGES = CONVERSATIONS[1]

JINJA = r"""
{{ 1 + 2 * 3 ** 2 - 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ 1.5 + 1 }} {{ 1e3 }}
{{ -2 ** 2 }} {{ - 3 | abs }} {{ 1_000 }} {{ 7 % -3 }} {{ 1.0 // 0.3 }} {{ true + 1 }} {{ 4 / 2 }}
{{ 'a' 'b' ~ 1 ~ none ~ true ~ undefined_name ~ 'c' }} {{ 'ab' * 2 }} {{ 2 * [1] }} {{ [1] + [2] }}
{{ 'a\nb\t\\ \'q\' \x41 \u00e9 \U0001F600 \101 \q' }} {{ "it's" }}
{{ [1, 'a', "it's", 'x"y\'z', none, true, 1.0, {'k': [2]}] }} {{ {} }} {{ [] }} {{ {1: 'a', 'b': 2} }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 }} {{ 'a' != 'b' }} {{ [1] == [1] }} {{ 2 >= 2 }} {{ 'a' <= 'b' }}
{{ 'b' in 'abc' }} {{ 2 in [1] }} {{ 'k' in {'k': 1} }} {{ 1 not in [1] }} {{ none == undefined_name }}
{{ not 1 == 2 and 0 or 'x' }} {{ 1 and 0 }} {{ 0 or [] or '' or 'last' }} {{ not not 1 }}
{{ 'yes' if 1 else 'no' }} {{ 'yes' if 0 }}| {{ 1 if 0 else 2 if 0 else 3 }}
{{ 'hello'[1] }} {{ 'hello'[-1] }} {{ 'hello'[1:3] }} {{ 'hello'[::-1] }} {{ 'hello'[-3:] }} {{ 'Größe'[2:-1] }}
{{ [1,2,3,4][1:] }} {{ [1,2,3,4][::2] }} {{ [1,2,3,4][3:0:-1] }} {{ [1,2,3][10:] }} {{ [1,2,3][-10:2] }} {{ [1,2][5] }}|
{{ {'a': 1}.a }} {{ {'a': 1}['a'] }} {{ {'a': 1}.b }}| {{ messages[0].role }} {{ messages[1]['content'] }} {{ [[5]].0.0 }}
{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ m.role }};{% endfor %}
{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content | trim }}{% else %}none{% endfor %}{% for x in [] %}{% else %}empty{% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }} {% endfor %}{% for k in {'x': 1} %}{{ k }}{% endfor %}{% for c in 'Größe' %}{{ c }}.{% endfor %}
{% for a, b in [[1, 2], (3, 4)] %}{{ a + b }},{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}{% for x in undefined_name %}{% endfor %}
{% for x in [1,2,3,4] %}{% if x == 2 %}{% continue %}{% elif x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{{ 1000 // 0.1 }} {{ 1 % 0.1 }} {{ -1 % 0.1 }} {{ 0.0 % -2 }} {{ -0.5 // 2 }} {{ 7.5 // -2 }} {{ 5.5 % -2 }} {{ 0.0 // -2 }} {{ 7 // 2.0 }}
{% for x in [1,2] %}{{ x }}{% break %}{% else %}e{% endfor %} {% for x in [1,2] %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% else %}e{% endfor %} {% for x in [1] %}{% continue %}{% else %}e{% endfor %}
{{ none | safe ~ 1 }} {{ (none | safe) is none }} {{ not (none | safe) }} {{ 2.5 | safe | length }} {{ undefined_name | safe }}|
{% for x in [1,2,3] %}{{ loop.previtem }}<{{ loop.nextitem }} {% for y in [1] %}{{ loop.length }}{% endfor %}{{ loop.length }}{% endfor %}
{% set x = 1 %}{% for i in [5] %}{{ x }}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}{% if 1 %}{% set x = 3 %}{% endif %}{{ x }}
{% set n = namespace(a=1) %}{% for i in [5, 6] %}{% set n.a = n.a + i %}{% set n.b = i %}{% endfor %}{{ n.a }}{{ n.b }}{{ n.c }}|
{% set a, b = 1, 2 %}{{ b }}{{ a }}{% set t = (1, 2) %}{{ t[1] }}{% set x %}block {{ a }}{% endset %}{{ x }}{% set y | trim | upper %} t {% endset %}{{ y }}
{% macro f(a, b=2, c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, c=9) }}{{ f() | length }}{{ f is callable }}
{% macro down(n) %}{{ n }}{% if n %}{{ down(n - 1) }}{% endif %}{% endmacro %}{% set late = 'L' %}{{ down(3) }}{% macro g() %}{{ late }}{% endmacro %}{{ g() }}
{% filter upper %}abc{% endfilter %}{% filter trim | replace('b', 'x') %} abc {% endfilter %}{% generation %}gen{% endgeneration %}
{% raw %}{{ raw }} {% if %}{% endraw %}|{%- raw -%}  x  {%- endraw -%}|{# comment {{ x }} #}|{#- trimmed -#}  |
  {% if true %}  indented  {% endif %}  {{ 1 }}  {%- if true %} a {% endif -%}  b
{%+ if true %} plus {% endif +%} end {{- ' minus ' -}} x
{{ '  a '.strip() }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'.lstrip('ab') }}|{{ '\u3000a\u00a0'.strip() }}|
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ ' a  b c '.split(none, 1) }} {{ ''.split() }} {{ ''.split('x') }} {{ '<t>x</t>y'.split('</t>')[-1] }}
{{ 'a\nb\n'.splitlines() }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'bc')) }} {{ 'aXbX'.replace('X', 'y') }} {{ 'aXbX'.replace('X', 'y', 1) }} {{ 'ab'.replace('', '-') }}
{{ 'hello wORLD it\'s'.title() }} {{ 'hello WORLD'.capitalize() }} {{ 'aB'.upper() }} {{ 'aB'.lower() }} {{ 'user' | title }} {{ 'abcb'.find('b') }} {{ 'Größe'.find('e') }} {{ 'abcb'.count('b') }} {{ '12'.isdigit() }}
{{ 'tool_call' | title }} {{ "it's the 3RD a-b (c) [d {e <f" | title }} {{ '42.23' | int }} {{ '+5' | int }} {{ '-4.9' | int }} {{ ' 1e3 ' | int(7) }} {{ 'nan' | int(7) }} {{ '+-1' | int(7) }} {{ 'a\rb\r\nc\n\nd\x0be\r'.splitlines() }} {{ '+2.5' | float }} {{ 'x\u0085a\u2028b\u2029'.splitlines() }}
{{ '-'.join(['a', 'b']) }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 5) }} {{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }}
{{ 'a{}b{}'.format(1, none) }} {{ '{1}{0}{x}'.format('p', 'q', x=[1]) }} {{ '{{}}{}'.format('}') }} {{ ''.format() }} {{ '{x}{}'.format(2, x=1) }}
{{ '{} {}'.format(1) }}
{{ '{x}'.format(1) }}
{{ '{'.format(1) }}
{{ 'a}b'.format(1) }}
{{ '  x ' | trim }}| {{ 'abc' | length }} {{ [1,2] | count }} {{ 'Größe' | length }} {{ undefined_name | length }} {{ 5 | string ~ 'x' }} {{ '12' | int + 1 }} {{ 'x' | int }} {{ '1.5' | float }} {{ 3.7 | int }}
{{ [3,1,2] | sort }} {{ ['b','A','c'] | sort }} {{ [1,2,3] | sort(reverse=true) }} {{ [1,2] | reverse | list }} {{ 'abc' | reverse }} {{ [1,2] | first }}{{ [1,2] | last }} {{ 'ab' | list }}
{{ undefined_name | default('d') }} {{ '' | default('d') }}| {{ '' | default('d', true) }} {{ none | d('x') }} {{ 0 | default(1, boolean=true) }} {{ [1, 2] | join(', ') }} {{ messages | join('/', attribute='role') }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | list }} {{ [1,0,2] | select | list }} {{ [1,2,3] | reject('odd') | list }} {{ ['a'] | map('upper') | list }} {{ none | selectattr('x') | list }}
{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %} {% for k, v in {'a': 1} | items %}{{ k }}{{ v }}{% endfor %} {{ 'a\nb' | indent(2) }} {{ 'a\n\nb' | indent(2, true) }} {{ 'ab' | replace('a', 'x') }} {{ 'x' | safe }} {{ 'ab' | upper }} {{ 'AB' | lower }} {{ 'ab' | capitalize }}
{{ {'a': [1, 2.5, 'é"\n\\', none, true], 'b': {}} | tojson }} {{ [] | tojson }} {{ {'b': 1, 'a': {}} | tojson(sort_keys=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }}
{{ {'a': [1, {'b': 2}], 'c': []} | tojson(indent=2) }}
{{ 1 is odd }} {{ 2 is even }} {{ 4 is divisibleby 2 }} {{ 'a' is string }} {{ 1 is number }} {{ true is boolean }} {{ 1 is integer }} {{ 1.0 is float }} {{ none is none }} {{ {} is mapping }} {{ [] is sequence }} {{ '' is iterable }} {{ x is defined }} {{ x is undefined }} {{ x is not defined }}
{{ true is true }} {{ 1 is true }} {{ false is false }} {{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is in [1] }} {{ 1 is lt 2 }} {{ 2 is gt 1 }} {{ 1 is ne 1 }} {{ strftime_now is defined }} {{ raise_exception is callable }} {{ tools is none }} {{ documents is defined }}
{{ range(3) | list }} {{ range(1, 7, 2) | list }} {{ range(3, 0, -1) | list }} {{ dict(a=1, b=2) }} {{ strftime_now('%d %b %Y, %A') }}
{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ messages | length }}{{ messages[-1].content | trim }}
{{ undefined_name.x }}
{{ undefined_name + 'x' }}
{{ 'x' + 1 }}
{{ none + 1 }}
{% for x in none %}{% endfor %}
{{ 1 // 0 }}
{{ [1, 'a'] | sort }}
{{ raise_exception('no') }}
{{ 'a' | no_such_filter }}
{{ 'a' is no_such_test }}
{{ 'a'.no_such_method() }}
{{ no_such_function() }}
{{ ''.__class__ }}|{{ messages.append(1) }}
{% if x %}
{{ 'open
{{ (1 }}
{% set n = namespace(a=1) %}{{ n }}{% bad %}
""".strip("\n").split("\n")
# One template of several lines.
JINJA.append("{% if true %}\n  a\n{% endif %}\n\n  {% for x in [1, 2] %}\n    {{ x }}\n  {% endfor %}\n"
             "  {#- c #}\n  {{- 'b' }}\r\n  {%- set y = 1 -%}\n  z\n\n")


def rendered(template, messages, prompt):
    try:
        return utils._compile_jinja_template(template).render(
            messages=[{"role": role, "content": content} for role, content in messages], tools=None, documents=None,
            add_generation_prompt=prompt, **SPECIALS)
    except Exception:
        return None


def main(folder):
    named = {}
    for name in NAMES:
        with open(os.path.join(folder, name + ".jinja"), newline="") as file:
            template = file.read()
        named[name] = [rendered(template, messages, prompt) for messages in CONVERSATIONS for prompt in (False, True)]
    out = {"specials": SPECIALS, "conversations": CONVERSATIONS, "named": named,
           "jinja": [[t, rendered(t, MESSAGES, True)] for t in JINJA]}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat_templates.json")
    with open(path, "w") as file:
        json.dump(out, file, ensure_ascii=False, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
