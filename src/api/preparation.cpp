#include "api/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "api/chat_answer.h"
#include "api/completion_answer.h"
#include "api/completion_request.h"
#include "api/response_answer.h"
#include "api/response_request.h"
#include "api/tool_fields.h"
#include "fetch/url.h"

namespace hs {
namespace {

// Before the pixels become floats, which take up to 30 times the memory of the file.
Status check_context(int64_t image_tokens, const ServedModel& model) {
  // Something has to fit behind the pictures.
  if (image_tokens < model.max_model_len) return {};
  return fail(ErrorKind::kTooLarge,
              fmt::format("The pictures up to this one take {} tokens, but this model's maximum "
                          "context length is {} tokens.",
                          image_tokens, model.max_model_len),
              "context_length_exceeded");
}

Error with_param(Error error, std::string_view param) {
  error.param = param;
  return error;
}

Result<Image> read_image(const ImageSource& source, const PreparationInput& input) {
  if (input.remote != nullptr)
    if (const auto found = input.remote->bytes.find(source.url); found != input.remote->bytes.end())
      return decode_image(std::as_bytes(std::span(found->second)), input.limits.image);
  const auto bytes = decode_data_url(source.url, input.limits.image_bytes_max);
  if (!bytes) return std::unexpected(bytes.error());
  return decode_image(*bytes, input.limits.image);
}

// Adds the picture's tokens to `image_tokens`, which are those of the pictures before it.
Result<std::shared_ptr<const ImagePatches>> prepare_image(const ImageSource& source,
                                                          ImageOptions options,
                                                          const PreparationInput& input,
                                                          int64_t& image_tokens, ImageWork& work) {
  const auto image = read_image(source, input);
  if (!image) return std::unexpected(image.error());
  ++work.n_images;
  work.pixels += int64_t{image->width} * image->height;
  options.low_detail = source.low_detail;
  const auto tokens = input.model.prompts->tokens_of(image->width, image->height, options);
  if (!tokens) return std::unexpected(tokens.error());
  image_tokens += *tokens;
  if (const Status fits = check_context(image_tokens, input.model); !fits)
    return std::unexpected(fits.error());
  auto patches = input.model.prompts->preprocess(*image, options);
  if (!patches) return std::unexpected(patches.error());
  return std::make_shared<const ImagePatches>(*std::move(patches));
}

Result<std::vector<std::shared_ptr<const ImagePatches>>> prepare_images(
    const ChatRequest& request, const PreparationInput& input, ImageWork& work) {
  std::vector<std::shared_ptr<const ImagePatches>> images;
  int64_t image_tokens = 0;
  const int64_t begin_us = input.clock.now_us();
  for (const ImageSource& source : request.images) {
    if (input.cancelled.load(std::memory_order_relaxed))
      return fail(ErrorKind::kCancelled, "The request was cancelled.");
    auto image = prepare_image(source, request.image_options, input, image_tokens, work);
    work.decode_us = input.clock.now_us() - begin_us;
    if (!image) return std::unexpected(with_param(image.error(), source.param));
    images.push_back(*std::move(image));
  }
  return images;
}

Status check_ids(std::span<const int32_t> ids, const ModelSpec& spec, std::string_view param) {
  for (const int32_t id : ids)
    if (id >= spec.vocab_size)
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("Token id {} is outside the vocabulary of {}.", id, spec.vocab_size),
                  "invalid_value", std::string(param));
  return {};
}

Status check_sampling_ids(const SamplingFields& sampling, const ModelSpec& spec) {
  std::vector<int32_t> biased;
  for (const TokenBias& bias : sampling.logit_bias) biased.push_back(bias.id);
  if (Status ids = check_ids(sampling.stop_token_ids, spec, "stop_token_ids"); !ids) return ids;
  if (Status ids = check_ids(sampling.allowed_token_ids, spec, "allowed_token_ids"); !ids)
    return ids;
  return check_ids(biased, spec, "logit_bias");
}

// FNV-1a with a finaliser. Whoever shares a salt shares caches, so it need not resist attacks: it
// only has to be another number for another salt, and not 0.
uint64_t hash_salt(std::string_view salt) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : salt) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 29;
  return h | 1;
}

// A word is forbidden as it begins a text and as it stands in one.
void add_bad_words(const std::vector<std::string>& words, const Tokenizer& tokenizer,
                   std::vector<std::vector<int32_t>>& out) {
  for (const std::string& word : words) {
    for (const std::string& spelling : {word, " " + word}) {
      const TextSpan everything{0, spelling.size()};
      auto ids = tokenizer.encode(
          spelling, {.add_special_tokens = false, .literal = std::span(&everything, 1)});
      if (!ids.empty() && std::ranges::find(out, ids) == out.end()) out.push_back(std::move(ids));
    }
  }
}

GenerateRequest with_sampling(const SamplingFields& fields, const ServedModel& model,
                              uint64_t drawn_seed) {
  const ModelSpec& spec = *model.spec;
  GenerateRequest generate;
  generate.max_tokens = fields.max_tokens.value_or(INT32_MAX);
  generate.min_tokens = fields.min_tokens;
  generate.n_choices = fields.n;
  generate.temperature = fields.temperature.value_or(spec.default_temperature.value_or(1.0F));
  generate.top_p = fields.top_p.value_or(spec.default_top_p.value_or(1.0F));
  generate.top_k = fields.top_k.value_or(spec.default_top_k.value_or(0));
  generate.min_p = fields.min_p.value_or(spec.default_min_p.value_or(0.0F));
  generate.repetition_penalty =
      fields.repetition_penalty.value_or(spec.default_repetition_penalty.value_or(1.0F));
  generate.frequency_penalty = fields.frequency_penalty;
  generate.presence_penalty = fields.presence_penalty;
  generate.seed = fields.seed.value_or(drawn_seed);
  generate.n_logprobs = fields.n_logprobs;
  generate.ignore_eos = fields.ignore_eos;
  generate.skip_special_tokens = fields.skip_special_tokens;
  generate.stops = fields.stops;
  generate.stop_token_ids = fields.stop_token_ids;
  generate.include_stop = fields.include_stop;
  generate.logit_bias = fields.logit_bias;
  generate.allowed_token_ids = fields.allowed_token_ids;
  add_bad_words(fields.bad_words, model.prompts->tokenizer(), generate.bad_words);
  generate.priority = fields.priority;
  if (!fields.cache_salt.empty()) generate.cache_salt = hash_salt(fields.cache_salt);
  return generate;
}

// The grammar that the answer's form asks for; null for none.
Result<std::shared_ptr<Grammar>> grammar_of(const AnswerForm& form, const ServedModel& model,
                                            bool begins_text) {
  if (!form.language) return nullptr;
  auto grammar = model.grammars->get(*form.language, form.text, begins_text);
  if (!grammar) return std::unexpected(form_error(grammar.error(), form));
  return grammar;
}

// The grammar of an answer that may have calls, and how they are told from its text.
Status prepare_tools(const ChatRequest& request, const ServedModel& model,
                     GenerateRequest& generate, CallRules& calls) {
  const ToolFormat& format = model.prompts->tool_format();
  const AnswerForm& form = request.sampling.form;
  const auto with_calls = tool_form(request.tools, format, form);
  if (!with_calls) return std::unexpected(with_calls.error());
  auto grammar = model.grammars->get(*with_calls->language, with_calls->text,
                                     !request.input.continue_final_message);
  if (!grammar && with_calls->language != Grammar::Language::kTools)
    return std::unexpected(form_error(grammar.error(), form));
  if (!grammar) {
    Error error = grammar.error();
    if (error.param.empty()) error.param = "tools";
    if (error.code.empty()) error.code = "invalid_value";
    return std::unexpected(std::move(error));
  }
  generate.grammar = *std::move(grammar);
  if (!request.tools.may_call()) return {};
  const bool maybe = request.tools.calls == ToolGrammar::Calls::kMaybe;
  calls = {.format = &format, .only_first = !maybe || form.language.has_value()};
  // Stop strings end texts, and there is none.
  if (!maybe) generate.stops.clear();
  const Tokenizer& tokenizer = model.prompts->tokenizer();
  const auto opening = tokenizer.id_of(format.opening);
  if (opening && tokenizer.is_special(*opening)) generate.skip_special_tokens = false;
  return {};
}

// What every kind of request has in common once its fields have been read.
Status check_common(const Status& parsed, const SamplingFields& sampling,
                    const PreparationInput& input, PreparedRequest& prepared) {
  if (!parsed) return parsed;
  if (!input.model.has_name(prepared.labels.model))
    return std::unexpected(unknown_model(input.model));
  if (Status ids = check_sampling_ids(sampling, *input.model.spec); !ids) return ids;
  if (input.streams != nullptr && prepared.stream.stream)
    input.streams->store(true, std::memory_order_relaxed);
  prepared.max_tokens = sampling.max_tokens.value_or(0);
  return {};
}

Status prepare(const PreparationInput& input, ChatRequest& request, std::string_view param,
               PreparedRequest& prepared, CallRules& calls) {
  const auto wants = wants_pictures(request, input);
  if (!wants) return std::unexpected(wants.error());
  if (*wants) return {};
  input.body.release();
  auto prompt = build_prompt(request, input, prepared.images);
  if (!prompt) {
    Error error = prompt.error();
    if (error.param.empty() || error.param == "messages") error.param = param;
    return std::unexpected(std::move(error));
  }
  GenerateRequest generate = with_sampling(request.sampling, input.model, input.drawn_seed);
  if (request.tools.any()) {
    const Status tools = prepare_tools(request, input.model, generate, calls);
    if (!tools) return tools;
  } else {
    auto grammar =
        grammar_of(request.sampling.form, input.model, !request.input.continue_final_message);
    if (!grammar) return std::unexpected(grammar.error());
    generate.grammar = *std::move(grammar);
  }
  generate.prompt = *std::move(prompt);
  generate.continues_text = request.input.continue_final_message;
  prepared.generate.push_back(std::move(generate));
  prepared.prompt_param = param;
  return {};
}

Status prepare(const PreparationInput& input, const CompletionRequest& request,
               PreparedRequest& prepared) {
  input.body.release();
  const PromptBuilder& prompts = *input.model.prompts;
  const SamplingFields& sampling = request.sampling;
  CompletionShape shape{.n_prompts = static_cast<int32_t>(request.prompts.size()),
                        .n_choices = sampling.n,
                        .n_logprobs = sampling.n_logprobs,
                        .skip_special_tokens = sampling.skip_special_tokens,
                        .echo = {},
                        .stream = request.stream};
  prepared.prompt_param = "prompt";
  const auto grammar = grammar_of(sampling.form, input.model, false);
  if (!grammar) return std::unexpected(grammar.error());
  for (const CompletionPrompt& one : request.prompts) {
    if (Status ids = check_ids(one.token_ids, *input.model.spec, "prompt"); !ids) return ids;
    GenerateRequest generate =
        with_sampling(sampling, input.model, input.drawn_seed + prepared.generate.size());
    auto prompt = one.is_tokens ? prompts.from_tokens(one.token_ids)
                                : prompts.completion(one.text, request.add_special_tokens);
    if (!prompt) return std::unexpected(prompt.error());
    generate.grammar = *grammar;
    generate.prompt = *std::move(prompt);
    if (generate.prompt.token_ids.empty())
      return fail(ErrorKind::kInvalidArgument, "The prompt is empty.", "invalid_value", "prompt");
    generate.continues_text = true;
    if (request.echo) {
      const std::vector<int32_t>& ids = generate.prompt.token_ids;
      shape.echo.push_back(
          {one.is_tokens ? prompts.tokenizer().decode(ids, sampling.skip_special_tokens) : one.text,
           ids});
      generate.n_prompt_logprobs = sampling.n_logprobs;
      generate.only_prompt = generate.max_tokens == 0 && sampling.n_logprobs >= 0;
    }
    prepared.generate.push_back(std::move(generate));
  }
  prepared.make_answer = [shape = std::move(shape)](const AnswerHead& head,
                                                    const Tokenizer& tokenizer) {
    return make_completion_answer(head, tokenizer, shape);
  };
  return {};
}

}  // namespace

PreparedRequest prepare_chat(const PreparationInput& input) {
  PreparedRequest prepared;
  ChatRequest request;
  const Status parsed = parse_chat_request(input.body.text(), input.limits.request, request);
  prepared.labels = std::move(request.labels);
  prepared.stream = request.stream;
  prepared.status = check_common(parsed, request.sampling, input, prepared);
  if (!prepared.status) return prepared;
  CallRules calls;
  prepared.status = prepare(input, request, "messages", prepared, calls);
  prepared.make_answer = [n = request.sampling.n, logprobs = request.sampling.n_logprobs >= 0,
                          stream = request.stream,
                          calls](const AnswerHead& head, const Tokenizer& tokenizer) {
    return make_chat_answer(head, tokenizer, n, logprobs, stream, calls);
  };
  return prepared;
}

PreparedRequest prepare_completion(const PreparationInput& input) {
  PreparedRequest prepared;
  CompletionRequest request;
  const Status parsed = parse_completion_request(input.body.text(), input.limits.request, request);
  prepared.labels = std::move(request.labels);
  prepared.stream = request.stream;
  prepared.status = check_common(parsed, request.sampling, input, prepared);
  if (prepared.status) prepared.status = prepare(input, request, prepared);
  return prepared;
}

PreparedRequest prepare_response(const PreparationInput& input) {
  PreparedRequest prepared;
  ResponseRequest request;
  const Status parsed = parse_response_request(input.body.text(), input.limits.request, request);
  prepared.labels = std::move(request.chat.labels);
  prepared.stream = request.chat.stream;
  prepared.status = check_common(parsed, request.chat.sampling, input, prepared);
  if (!prepared.status) return prepared;
  CallRules calls;
  prepared.status = prepare(input, request.chat, "input", prepared, calls);
  if (!prepared.status || prepared.generate.empty()) return prepared;
  ResponseShape shape = shape_of(request, prepared.labels.metadata_json);
  shape.calls = calls;
  shape.temperature = prepared.generate.front().temperature;
  shape.top_p = prepared.generate.front().top_p;
  prepared.make_answer = [shape = std::move(shape)](const AnswerHead& head,
                                                    const Tokenizer& tokenizer) {
    return make_response_answer(head, tokenizer, shape);
  };
  return prepared;
}

Result<bool> wants_pictures(const ChatRequest& request, const PreparationInput& input) {
  // A model without eyes refuses pictures wherever they are.
  if (input.remote == nullptr || input.limits.media == nullptr || input.remote->fetched ||
      !input.model.spec->has_vision)
    return false;
  std::vector<RemotePictures::Wanted>& wanted = input.remote->wanted;
  for (const ImageSource& source : request.images) {
    if (!is_web_url(source.url)) continue;
    const auto url = parse_url(source.url);
    if (!url)
      return std::unexpected(
          with_param({ErrorKind::kInvalidArgument, url.error().message, "invalid_image_url", ""},
                     source.param));
    if (const Status allowed = input.limits.media->allow_url(*url); !allowed)
      return std::unexpected(with_param(allowed.error(), source.param));
    const auto same = [&](const RemotePictures::Wanted& other) { return other.url == source.url; };
    if (std::ranges::none_of(wanted, same)) wanted.push_back({source.url, source.param});
  }
  return !wanted.empty();
}

Result<Prompt> build_prompt(const ChatRequest& request, const PreparationInput& input,
                            ImageWork& work) {
  if (!request.images.empty() && !input.model.spec->has_vision)
    return fail(ErrorKind::kUnsupported, "This model takes no pictures.", "unsupported_value",
                request.images.front().param);
  auto images = prepare_images(request, input, work);
  if (!images) return std::unexpected(images.error());
  auto prompt = input.model.prompts->chat(request.input, *std::move(images));
  if (!prompt) {
    Error error = prompt.error();
    if (error.param.empty()) error.param = "messages";
    return std::unexpected(std::move(error));
  }
  return prompt;
}

}  // namespace hs
