// Formats of chats for models that came without a template, written for tern.

#include "tern/core/base/error.h"
#include "tern/pretrained/chat_template.h"

namespace tern::pretrained {
namespace {

struct Format {
  std::string name, bos, eos, jinja;
};

// Parts of several formats.

/// Sets `first` to the system text, if any, and `turns` to the other messages.
const std::string kSplitSystem = R"({% set turns = messages %}
{% if messages[0].role == 'system' %}
{% set first = messages[0].content %}
{% set turns = messages[1:] %}
{% endif %}
)";

/// Refuses turns other than user, assistant, user, ...
const std::string kAlternate = R"({% for turn in turns %}
{% if turn.role != ('assistant' if loop.index0 % 2 else 'user') %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% endfor %}
)";

const std::string kRefuseSystem = R"({% set turns = messages %}
{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
)" + kAlternate;

/// ChatML. A model may have a system text for conversations without one.
std::string chatml(const std::string& system = "") {
  const std::string otherwise = system.empty() ? "" : R"({% if messages[0].role != 'system' %}
{{- '<|im_start|>system\n)" + system + R"(<|im_end|>\n' }}
{%- endif %})";
  return otherwise + R"({% for turn in messages %}
{{- '<|im_start|>' + turn.role + '\n' + turn.content + '<|im_end|>\n' }}
{%- endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";
}

/// Thoughts stay in the answers to the last user alone.
const std::string kQwen3 = R"({% set place = namespace(last_user=-1) %}
{% for turn in messages %}
{% if turn.role == 'user' %}{% set place.last_user = loop.index0 %}{% endif %}
{% endfor %}
{% for turn in messages %}
{% set content = turn.content %}
{% if turn.role == 'assistant' %}
{% set thoughts = '' %}
{% if '</think>' in content %}
{% set thoughts = content.split('</think>')[0].split('<think>')[-1].strip('\n') %}
{% set content = content.split('</think>')[-1].lstrip('\n') %}
{% endif %}
{% if loop.index0 > place.last_user and place.last_user >= 0 and (loop.last or thoughts) %}
{% set content = '<think>\n' + thoughts + '\n</think>\n\n' + content.lstrip('\n') %}
{% endif %}
{% endif %}
{{- '<|im_start|>' + turn.role + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and not enable_thinking -%}
{{ '<think>\n\n</think>\n\n' }}{% endif %}
{% endif %})";

const std::string kLlama2 = kSplitSystem + kAlternate + R"({% for turn in turns %}
{% if turn.role == 'assistant' %}
{{- ' ' + turn.content.strip() + ' ' + eos_token }}
{%- else %}
{% set system = '<<SYS>>\n' + first + '\n<</SYS>>\n\n' if loop.first and first is defined else '' %}
{{- bos_token + '[INST] ' + (system + turn.content).strip() + ' [/INST]' }}
{%- endif %}
{% endfor %})";

/// Llama 3, after what stands before the `turns`.
std::string llama3(const std::string& before) {
  return before + R"({%- for turn in turns %}
{{- '<|start_header_id|>' + turn.role + '<|end_header_id|>\n\n' }}
{{- turn.content | trim + '<|eot_id|>' }}
{%- endfor %}
{% if add_generation_prompt -%}
{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})";
}

/// Llama 3.1 and 3.2 write dates before the system text. `date` is an expression.
std::string llama31(const std::string& date) {
  return llama3(kSplitSystem +
                R"({{- bos_token + '<|start_header_id|>system<|end_header_id|>\n\n' }}
{{- 'Cutting Knowledge Date: December 2023\nToday Date: ' + )" +
                date + R"( + '\n\n' }}
{%- if first is defined %}{{ first | trim }}{% endif %}
{{- '<|eot_id|>' }}
)");
}

/// Versions of Mistral's format differ in spaces and in the user whom the system text goes to.
std::string mistral(const std::string& before, const std::string& after, const std::string& answer,
                    const std::string& system_turn) {
  return kSplitSystem + kAlternate + R"({{- bos_token }}
{%- for turn in turns %}
{% if turn.role == 'assistant' %}
{{- )" + answer +
         R"( + eos_token }}
{%- else %}
{% set system = first + '\n\n' if first is defined and loop.)" +
         system_turn + R"( else '' %}
{{- ')" + before +
         "' + system + turn.content + '" + after + R"(' }}
{%- endif %}
{% endfor %})";
}

const std::string kMistralV7 = R"({{- bos_token }}
{%- for turn in messages %}
{% if turn.role == 'system' %}
{{- '[SYSTEM_PROMPT] ' + turn.content + '[/SYSTEM_PROMPT]' }}
{%- elif turn.role == 'user' %}
{{- '[INST] ' + turn.content + '[/INST]' }}
{%- elif turn.role == 'assistant' %}
{{- ' ' + turn.content + eos_token }}
{%- else %}
{{ raise_exception('Only user, system and assistant roles are supported!') }}
{% endif %}
{% endfor %})";

/// The turns of Gemma, after `before` has set them. `first` goes into the first turn.
std::string gemma(const std::string& before) {
  return before + R"({{- bos_token }}
{%- for turn in turns %}
{{- '<start_of_turn>' + ('model' if turn.role == 'assistant' else turn.role) + '\n' }}
{%- if loop.first and first is defined %}{{ first + '\n\n' }}{% endif %}
{{- turn.content | trim + '<end_of_turn>\n' }}
{%- endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %})";
}

const std::string kPhi3 = R"({{- bos_token }}
{%- for turn in messages %}
{% if turn.role == 'user' %}
{{- '<|user|>\n' + turn.content + '<|end|>\n<|assistant|>\n' }}
{%- elif turn.role == 'assistant' %}
{{- turn.content + '<|end|>\n' }}
{%- endif %}
{% endfor %})";

const std::string kPhi35 = R"({% for turn in messages %}
{% if turn.role in ['user', 'assistant'] or turn.role == 'system' and turn.content %}
{{- '<|' + turn.role + '|>\n' + turn.content + '<|end|>\n' }}
{%- endif %}
{% endfor %}
{{- '<|assistant|>\n' if add_generation_prompt else eos_token }})";

const std::string kPhi4 = R"({% for turn in messages %}
{% if turn.role == 'user' or turn.role == 'system' %}
{{- '<|im_start|>' + turn.role + '<|im_sep|>' + turn.content + '<|im_end|>' }}
{%- if turn.role == 'user' %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}
{% elif turn.role == 'assistant' %}
{{- turn.content + '<|im_end|>' }}
{%- endif %}
{% endfor %})";

const std::string kZephyr = R"({% for turn in messages %}
{{- '<|' + turn.role + '|>\n' + turn.content + eos_token + '\n' }}
{%- endfor %}
{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})";

/// The last system text stands first. Answers lose their thoughts.
const std::string kDeepseekR1 = R"({% set found = namespace(system='') %}
{% for turn in messages %}
{% if turn.role == 'system' %}{% set found.system = turn.content %}{% endif %}
{% endfor %}
{{- bos_token + found.system }}
{%- for turn in messages %}
{% if turn.role == 'user' %}
{{- '<｜User｜>' + turn.content }}
{%- elif turn.role == 'assistant' %}
{{- '<｜Assistant｜>' + turn.content.split('</think>')[-1] + '<｜end▁of▁sentence｜>' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\n' }}{% endif %})";

/// As FastChat writes it for version 1.1 and later.
const std::string kVicuna = kSplitSystem + kAlternate + R"({{- bos_token }}
{%- if first is defined %}{{ first }}{% else %}
{{- 'A chat between a curious user and an artificial intelligence assistant. ' }}
{{- "The assistant gives helpful, detailed, and polite answers to the user's questions." }}
{%- endif %}
{{- ' ' }}
{%- for turn in turns %}
{% if turn.role == 'user' %}
{{- 'USER: ' + turn.content + ' ' }}
{%- else %}
{{- 'ASSISTANT: ' + turn.content + eos_token }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %})";

const std::vector<Format>& formats() {
  static const std::string begin = "<|begin_of_text|>", turn = "<|im_end|>";
  static const std::vector<Format> all = {
      {"chatml", "", turn, chatml()},
      {"deepseek-r1", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", kDeepseekR1},
      {"gemma", "<bos>", "<eos>", gemma(kRefuseSystem)},
      {"gemma3", "<bos>", "<eos>", gemma(kSplitSystem + kAlternate)},
      {"llama2", "<s>", "</s>", kLlama2},
      {"llama3", begin, "<|eot_id|>", llama3("{{ bos_token }}{% set turns = messages %}\n")},
      {"llama3.1", begin, "<|eot_id|>", llama31("'26 Jul 2024'")},
      {"llama3.2", begin, "<|eot_id|>", llama31("strftime_now('%d %b %Y')")},
      {"mistral-v1", "<s>", "</s>", mistral(" [INST] ", " [/INST]", "' ' + turn.content", "first")},
      {"mistral-v3", "<s>", "</s>",
       mistral("[INST] ", "[/INST]", "' ' + turn.content | trim", "last")},
      {"mistral-nemo", "<s>", "</s>", mistral("[INST]", "[/INST]", "turn.content", "last")},
      {"mistral-v7", "<s>", "</s>", kMistralV7},
      {"phi3", "<s>", "<|endoftext|>", kPhi3},
      {"phi3.5", "<s>", "<|endoftext|>", kPhi35},
      {"phi4", "<|endoftext|>", turn, kPhi4},
      {"qwen2.5", "", turn,
       chatml("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")},
      {"qwen3", "", turn, kQwen3},
      {"smollm2", "<|im_start|>", turn,
       chatml("You are a helpful AI assistant named SmolLM, trained by Hugging Face")},
      {"tinyllama", "<s>", "</s>", kZephyr},
      {"vicuna", "<s>", "</s>", kVicuna},
      {"zephyr", "<s>", "</s>", kZephyr},
  };
  return all;
}

}  // namespace

std::vector<std::string> ChatTemplate::names() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.push_back(format.name);
  return names;
}

ChatTemplate ChatTemplate::named(const std::string& name, const Specials& specials) {
  std::string known;
  for (const Format& format : formats()) {
    if (format.name == name) {
      Specials all = specials;  // insert keeps what is there
      all.insert({{"bos_token", format.bos}, {"eos_token", format.eos}});
      return ChatTemplate(format.jinja, std::move(all));
    }
    known += (known.empty() ? "" : ", ") + format.name;
  }
  fail("there is no chat template '" + name + "'; there are " + known);
}

}  // namespace tern::pretrained
