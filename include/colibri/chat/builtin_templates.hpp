// Chat templates that can be asked for by name, for files that have none or a broken one.
#pragma once

#include <string_view>

namespace colibri {

/// A template by name. `stop`: a text that ends an answer where no token does; empty if a token does.
struct builtin_template {
    std::string_view name;
    std::string_view source;
    std::string_view stop = {};
};

// Where a family's own template writes bos_token, so does ours; elsewhere the tokenizer's rule decides.

/// Name of the form for models without any template: the roles as words.
inline constexpr std::string_view plain_template = "plain";

/// The formats that these families of models were trained with. Those that know only some roles refuse all others.
inline constexpr builtin_template builtin_templates[] = {
    {"chatml", R"({% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %})"},

    {"llama2", R"({% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system %}
<<SYS>>
{{ m.content }}
<</SYS>>

{% endset %}{% elif m.role == 'user' %}{{ bos_token }}[INST] {{ ns.system }}{{ m.content }} [/INST]{% set ns.system = '' %}
{% elif m.role == 'assistant' %} {{ m.content }} {{ eos_token }}{% else %}
{{ raise_exception('the template llama2 has no role ' ~ m.role) }}{% endif %}{% endfor %})"},

    {"llama3", R"({{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %})"},

    // Mistral 7B Instruct 0.1 and 0.2, Mixtral 8x7B.
    {"mistral", R"({% set ns = namespace(system='') %}{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}
{% set ns.system = m.content ~ '\n\n' %}{% elif m.role == 'user' %} [INST] {{ ns.system }}{{ m.content }} [/INST]
{%- set ns.system = '' %}{% elif m.role == 'assistant' %} {{ m.content }}{{ eos_token }}{% else %}
{{ raise_exception('the template mistral has no role ' ~ m.role) }}{% endif %}{% endfor %})"},

    // Mistral 7B Instruct 0.3, Mixtral 8x22B, Mistral Large 2407: the system text goes into the last question.
    {"mistral-v3", R"({% set ns = namespace(system='', last=-1) %}{{ bos_token }}{% for m in messages %}
{% if m.role == 'system' %}{% set ns.system = m.content ~ '\n\n' %}{% elif m.role == 'user' %}
{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if m.role == 'user' %}[INST]
{%- if loop.index0 == ns.last %} {{ ns.system }}{% else %} {% endif %}{{ m.content }}[/INST]{% elif m.role == 'assistant' %}
 {{ m.content }}{{ eos_token }}{% elif m.role != 'system' %}
{{ raise_exception('the template mistral-v3 has no role ' ~ m.role) }}{% endif %}{% endfor %})"},

    // Mistral Nemo and other models with the Tekken tokenizer: the same without blanks.
    {"mistral-tekken", R"({% set ns = namespace(system='', last=-1) %}{{ bos_token }}{% for m in messages %}
{% if m.role == 'system' %}{% set ns.system = m.content ~ '\n\n' %}{% elif m.role == 'user' %}
{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if m.role == 'user' %}[INST]
{%- if loop.index0 == ns.last %}{{ ns.system }}{% endif %}{{ m.content }}[/INST]{% elif m.role == 'assistant' %}
{{ m.content }}{{ eos_token }}{% elif m.role != 'system' %}
{{ raise_exception('the template mistral-tekken has no role ' ~ m.role) }}{% endif %}{% endfor %})"},

    // Gemma 1 to 3: there is no system role, its text goes before the first question.
    {"gemma", R"({% set ns = namespace(system='') %}{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}
{% set ns.system = m.content ~ '\n\n' %}{% elif m.role == 'user' or m.role == 'assistant' %}<start_of_turn>
{%- if m.role == 'user' %}user
{{ ns.system }}{% set ns.system = '' %}{% else %}model
{% endif %}{{ m.content | trim }}<end_of_turn>
{% else %}{{ raise_exception('the template gemma has no role ' ~ m.role) }}{% endif %}{% endfor %}
{% if add_generation_prompt %}<start_of_turn>model
{% endif %})"},

    {"phi3", R"({% for m in messages %}<|{{ m.role }}|>
{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %})"},

    {"phi4", R"({% for m in messages %}<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>{% endfor %}
{% if add_generation_prompt %}<|im_start|>assistant<|im_sep|>{% endif %})"},

    {"zephyr", R"({% for m in messages %}<|{{ m.role }}|>
{{ m.content }}{{ eos_token }}
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %})"},

    {"vicuna", R"({% for m in messages %}{% if m.role == 'system' %}{{ m.content }} {% elif m.role == 'user' %}
USER: {{ m.content }} {% elif m.role == 'assistant' %}ASSISTANT: {{ m.content }}{{ eos_token }}{% else %}
{{ raise_exception('the template vicuna has no role ' ~ m.role) }}{% endif %}{% endfor %}{% if add_generation_prompt %}
ASSISTANT:{% endif %})", "USER:"},

    // DeepSeek LLM and V2.
    {"deepseek", R"({{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}

{% elif m.role == 'user' %}User: {{ m.content }}

{% elif m.role == 'assistant' %}Assistant: {{ m.content }}{{ eos_token }}{% else %}
{{ raise_exception('the template deepseek has no role ' ~ m.role) }}{% endif %}{% endfor %}{% if add_generation_prompt %}
Assistant:{% endif %})"},

    // DeepSeek V3, R1 and its distillations.
    {"deepseek3", R"({{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'user' %}
<｜User｜>{{ m.content }}{% elif m.role == 'assistant' %}<｜Assistant｜>{{ m.content }}{{ eos_token }}{% else %}
{{ raise_exception('the template deepseek3 has no role ' ~ m.role) }}{% endif %}{% endfor %}{% if add_generation_prompt %}
<｜Assistant｜>{% endif %})"},

    // Granite 3.
    {"granite", R"({% for m in messages %}<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content }}<|end_of_text|>
{% endfor %}{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %})"},

    {"glm4", R"([gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>
{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %})"},

    {"command-r", R"({{ bos_token }}{% for m in messages %}<|START_OF_TURN_TOKEN|>{% if m.role == 'system' %}<|SYSTEM_TOKEN|>
{%- elif m.role == 'user' %}<|USER_TOKEN|>{% elif m.role == 'assistant' %}<|CHATBOT_TOKEN|>{% else %}
{{ raise_exception('the template command-r has no role ' ~ m.role) }}{% endif %}{{ m.content | trim }}<|END_OF_TURN_TOKEN|>
{%- endfor %}{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %})"},

    {"alpaca", R"({% for m in messages %}{% if m.role == 'system' %}{{ m.content }}

{% elif m.role == 'user' %}### Instruction:
{{ m.content }}

{% elif m.role == 'assistant' %}### Response:
{{ m.content }}{{ eos_token }}

{% else %}{{ raise_exception('the template alpaca has no role ' ~ m.role) }}{% endif %}{% endfor %}
{% if add_generation_prompt %}### Response:
{% endif %})", "### Instruction:"},

    {plain_template, R"({% for m in messages %}{% if m.role == 'system' %}{{ m.content }}

{% elif m.role == 'user' %}User: {{ m.content }}
{% elif m.role == 'assistant' %}Assistant: {{ m.content }}
{% else %}{{ m.role | capitalize }}: {{ m.content }}
{% endif %}{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %})", "\nUser:"},
};

}  // namespace colibri
