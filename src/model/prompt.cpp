#include "model/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "model/json_fields.h"

namespace hs {

namespace {

// bos_token of tokenizer_config.json or special_tokens_map.json: a string, or an object with its
// content; "" when there is none.
Result<std::string> read_bos_token(const std::filesystem::path& dir) {
  for (const std::string name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto json = read_json_file(dir / name);
    if (!json && json.error().kind == ErrorKind::kNotFound) continue;
    if (!json) return std::unexpected(json.error());
    std::optional<Error> error;
    FieldReader reader(name, *json, error);
    std::string token = reader.is_object("bos_token")
                            ? reader.child("bos_token").text("content", "")
                            : reader.text("bos_token", "");
    if (error) return std::unexpected(std::move(*error));
    if (!token.empty()) return token;
  }
  return std::string();
}

std::unexpected<Error> no_pictures() {
  return fail(ErrorKind::kUnsupported, "this model reads text only; it cannot take images",
              "images_not_supported", "messages");
}

class TextPromptBuilder final : public PromptBuilder {
 public:
  explicit TextPromptBuilder(PromptText text) : text_(std::move(text)) {}

  const Tokenizer& tokenizer() const override { return text_.tokenizer(); }
  const ToolFormat& tool_format() const override { return text_.tool_format(); }
  Result<int64_t> tokens_of(int32_t /*width*/, int32_t /*height*/,
                            const ImageOptions& /*options*/) const override {
    return no_pictures();
  }
  Result<ImagePatches> preprocess(const Image& /*image*/,
                                  const ImageOptions& /*options*/) const override {
    return no_pictures();
  }

  Result<Prompt> chat(const ChatInput& input,
                      std::vector<std::shared_ptr<const ImagePatches>> images) const override {
    const bool has_image_part = std::ranges::any_of(input.messages, [](const ChatMessage& message) {
      return std::ranges::any_of(
          message.parts, [](const ChatPart& part) { return part.kind == ChatPart::Kind::kImage; });
    });
    if (!images.empty() || has_image_part) return no_pictures();
    auto ids = text_.encode_chat(input);
    if (!ids) return std::unexpected(std::move(ids.error()));
    return numbered(std::move(*ids));
  }

  Result<Prompt> completion(std::string_view text, bool add_special_tokens) const override {
    return numbered(text_.encode_plain(text, add_special_tokens));
  }

  Prompt from_tokens(std::vector<int32_t> token_ids) const override {
    return numbered(std::move(token_ids));
  }

 private:
  static Prompt numbered(std::vector<int32_t> token_ids) {
    Prompt prompt;
    prompt.token_ids = std::move(token_ids);
    number_positions(prompt);
    return prompt;
  }

  PromptText text_;
};

}  // namespace

PromptText::PromptText(std::unique_ptr<Tokenizer> tokenizer,
                       std::unique_ptr<ChatTemplate> chat_template, std::string bos_token)
    : tokenizer_(std::move(tokenizer)),
      chat_template_(std::move(chat_template)),
      bos_token_(std::move(bos_token)) {
  HS_CHECK(tokenizer_ != nullptr);
}

Result<PromptText> PromptText::load(const std::filesystem::path& dir) {
  auto tokenizer = Tokenizer::load(dir);
  if (!tokenizer) return std::unexpected(std::move(tokenizer.error()));
  auto bos_token = read_bos_token(dir);
  if (!bos_token) return std::unexpected(std::move(bos_token.error()));
  auto chat_template = ChatTemplate::load(dir);
  if (!chat_template && chat_template.error().kind != ErrorKind::kNotFound) {
    return std::unexpected(std::move(chat_template.error()));
  }
  return PromptText(std::move(*tokenizer), chat_template ? std::move(*chat_template) : nullptr,
                    std::move(*bos_token));
}

Result<std::vector<int32_t>> PromptText::encode_chat(const ChatInput& input) const {
  if (chat_template_ == nullptr) {
    return fail(ErrorKind::kUnsupported,
                "this model has no chat template; only plain completions are possible",
                "no_chat_template");
  }
  const auto rendered = chat_template_->render(input);
  if (!rendered) return std::unexpected(rendered.error());
  const bool has_bos = !bos_token_.empty() && rendered->text.starts_with(bos_token_) &&
                       (rendered->literal.empty() || rendered->literal.front().begin > 0);
  return tokenizer_->encode(rendered->text,
                            {.add_special_tokens = !has_bos, .literal = rendered->literal});
}

std::vector<int32_t> PromptText::encode_plain(std::string_view text,
                                              bool add_special_tokens) const {
  const TextSpan everything{0, text.size()};
  return tokenizer_->encode(
      text, {.add_special_tokens = add_special_tokens, .literal = std::span(&everything, 1)});
}

Result<Prompt> expand_images(const std::vector<int32_t>& token_ids, int32_t image_token_id,
                             std::vector<std::shared_ptr<const ImagePatches>> images,
                             FunctionRef<int32_t(const ImagePatches&)> tokens_of) {
  const auto n_placeholders = static_cast<size_t>(std::ranges::count(token_ids, image_token_id));
  if (n_placeholders != images.size()) {
    return fail(
        ErrorKind::kInvalidArgument,
        fmt::format(
            "the model's chat template placed {} of {} images; images belong into user messages",
            n_placeholders, images.size()),
        "invalid_image_placement", "messages");
  }
  Prompt prompt;
  for (const int32_t id : token_ids) {
    if (id != image_token_id) {
      prompt.token_ids.push_back(id);
      continue;
    }
    const ImageSpan span{static_cast<int32_t>(prompt.token_ids.size()),
                         tokens_of(*images[prompt.spans.size()])};
    prompt.token_ids.insert(prompt.token_ids.end(), static_cast<size_t>(span.count),
                            image_token_id);
    prompt.spans.push_back(span);
  }
  prompt.images = std::move(images);
  return prompt;
}

void number_positions(Prompt& prompt) {
  prompt.positions.resize(prompt.token_ids.size());
  std::iota(prompt.positions.begin(), prompt.positions.end(), 0);
  prompt.position_delta = 0;
}

std::unique_ptr<PromptBuilder> make_text_prompt_builder(PromptText text) {
  return std::make_unique<TextPromptBuilder>(std::move(text));
}

}  // namespace hs
