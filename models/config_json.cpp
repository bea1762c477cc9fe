// The members of transformers' config.json that are the same for all models.
#include "tern/models/config_json.h"

namespace tern::models::config_json {

void only_empty(const JsonValue& j, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const JsonValue v = j.find(key); !v.is_null() && v.size() > 0)
      v.fail(fmt::format("it is {}; tern has no such model", v.shown()));
}

void ignore_harmless(const JsonValue& j) {
  j.ignore(
      "_model_name_or_path _attn_implementation _attn_implementation_autoset _commit_hash "
      "_name_or_path "
      "architectures auto_map bos_token_id cls_token_id decoder_start_token_id dtype eos_token_id "
      "mask_token_id model_type name_or_path pad_token_id prefix sep_token_id "
      "tokenizer_class torch_dtype transformers_version unk_token_id");
  j.ignore(
      "bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping "
      "encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id "
      "forced_eos_token_id length_penalty max_length max_new_tokens min_length "
      "no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_attentions "
      "output_hidden_states output_past output_scores remove_invalid_values "
      "repetition_penalty return_dict return_dict_in_generate suppress_tokens temperature "
      "top_k top_p typical_p use_cache");
  j.ignore(
      "classifier_dropout finetuning_task gradient_checkpointing id2label initializer_range "
      "is_llama_config label2id num_labels problem_type rope_interleaved task_specific_params "
      "tf_legacy_loss torchscript transformers.js_config use_bfloat16");
  // These change only the order of computation, or belong to a model of several files.
  j.ignore(
      "chunk_size_feed_forward cross_attention_hidden_size pretraining_tp "
      "reorder_and_upcast_attn tie_encoder_decoder");
  only(j, "is_encoder_decoder", false);
  only(j, "add_cross_attention", false);
  only_empty(j, {"pruned_heads", "quantization_config"});
}

}  // namespace tern::models::config_json
