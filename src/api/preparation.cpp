#include "api/preparation.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <utility>

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

// Adds the picture's tokens to `image_tokens`, which are those of the pictures before it.
Result<std::shared_ptr<const ImagePatches>> prepare_image(const ImageSource& source,
                                                          ImageOptions options,
                                                          const PreparationInput& input,
                                                          int64_t& image_tokens, ImageWork& work) {
  const auto bytes = decode_data_url(source.url, input.limits.image_bytes_max);
  if (!bytes) return std::unexpected(bytes.error());
  const auto image = decode_image(*bytes, input.limits.image);
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
    if (!image) {
      Error error = image.error();
      error.param = source.param;
      return std::unexpected(std::move(error));
    }
    images.push_back(*std::move(image));
  }
  return images;
}

Status check_stop_token_ids(const SamplingFields& sampling, const ModelSpec& spec) {
  for (const int32_t id : sampling.stop_token_ids)
    if (id >= spec.vocab_size)
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("Token id {} is outside the vocabulary of {}.", id, spec.vocab_size),
                  "invalid_value", "stop_token_ids");
  return {};
}

void apply_sampling(const SamplingFields& fields, const ModelSpec& spec, uint64_t drawn_seed,
                    GenerateRequest& generate) {
  generate.max_tokens = fields.max_tokens.value_or(INT32_MAX);
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
}

Status prepare(const PreparationInput& input, PreparedChat& prepared) {
  ChatRequest request;
  const Status parsed = parse_chat_request(input.body.text(), input.limits.request, request);
  input.body.release();
  prepared.model = request.model;
  prepared.stream = request.stream;
  prepared.timings = request.timings;
  prepared.unknown_fields = std::move(request.unknown_fields);
  if (!parsed) return parsed;
  if (!input.model.has_name(request.model)) return std::unexpected(unknown_model(input.model));
  if (const Status ids = check_stop_token_ids(request.sampling, *input.model.spec); !ids)
    return ids;
  auto prompt = build_prompt(request, input, prepared.images);
  if (!prompt) return std::unexpected(prompt.error());
  apply_sampling(request.sampling, *input.model.spec, input.drawn_seed, prepared.generate);
  prepared.generate.prompt = *std::move(prompt);
  return {};
}

}  // namespace

PreparedChat prepare_chat(const PreparationInput& input) {
  PreparedChat prepared;
  prepared.status = prepare(input, prepared);
  return prepared;
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
