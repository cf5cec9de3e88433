// Shared by the prompt builders of all families: chat template and tokenizer, and putting image
// placeholders in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hs {

// The text side of a checkpoint. Immutable after load.
class PromptText {
 public:
  static Result<PromptText> load(const std::filesystem::path& dir);
  // For tests: parts that are made already. `chat_template` may be null.
  PromptText(std::unique_ptr<Tokenizer> tokenizer, std::unique_ptr<ChatTemplate> chat_template,
             std::string bos_token);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ToolFormat& tool_format() const {
    return chat_template_ == nullptr ? hermes_tools() : chat_template_->tool_format();
  }
  // Renders and encodes. Control tokens come only from the template, never from message texts.
  // Special tokens (BOS) are added unless the template has written BOS itself.
  Result<std::vector<int32_t>> encode_chat(const ChatInput& input) const;
  // No control token is recognised in `text`.
  std::vector<int32_t> encode_plain(std::string_view text, bool add_special_tokens) const;

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;  // null: the checkpoint has none
  std::string bos_token_;                        // "" when the tokenizer has none
};

// Repeats each occurrence of `image_token_id` as often as its picture has embedding rows. Errors
// (kInvalidArgument): the template wrote another number of placeholders than there are pictures.
// Positions are left to the caller.
Result<Prompt> expand_images(const std::vector<int32_t>& token_ids, int32_t image_token_id,
                             std::vector<std::shared_ptr<const ImagePatches>> images,
                             FunctionRef<int32_t(const ImagePatches&)> tokens_of);

// Positions 0 .. n-1, for models with one position axis.
void number_positions(Prompt& prompt);

// The prompt builder of models without pictures. `text` as loaded.
std::unique_ptr<PromptBuilder> make_text_prompt_builder(PromptText text);

}  // namespace hs
