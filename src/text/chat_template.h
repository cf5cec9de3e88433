// The checkpoint's Jinja chat template, in the subset that real templates use, run with limits on
// steps and size. Reference: Jinja2 as the transformers library sets it up (trim_blocks,
// lstrip_blocks, raise_exception, tojson).
//
// Templates differ in whether they take a message's content as a string, as a list of parts, or
// both. What a template takes is tried out once for each role when it is parsed; contents are then
// given in a form that it takes: text parts for a template that takes only strings are joined by
// newlines, a string for one that takes only parts becomes one part. Likewise whether it knows
// tools in a format that tool_format.h has: where it does not, they are written into the turns
// (tool_turns.h).
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "text/tokenizer.h"
#include "text/tool_format.h"

namespace hs {

struct ChatPart {
  enum class Kind { kText, kImage } kind = Kind::kText;
  std::string text;                // of a text part
  std::vector<TextSpan> own = {};  // sorted spans of `text` that this server wrote: control tokens
                                   // are recognised there
};

struct ChatMessage {
  std::string role;                // system, user, assistant, tool; "developer" has become system
  std::vector<ChatPart> parts;     // in order
  bool content_is_string = false;  // the client sent a plain string: the template sees one
  std::string name = {};           // of the speaker, or of the tool that answers; "" = none
  std::string tool_call_id = {};   // that a tool message answers
  // Of an assistant: JSON, a list of {"id","type","function":{"name","arguments"}}; "" = none.
  std::string tool_calls_json = {};
};

struct ChatInput {
  std::vector<ChatMessage> messages;
  bool add_generation_prompt = true;
  const Clock* clock = nullptr;  // for strftime_now(); without it that function is undefined, as
                                 // templates provide for
  // The prompt ends with the text of the last message, so that the answer goes on with it. What the
  // template writes behind that text is left out; white space that it strips there is put back.
  bool continue_final_message = false;
  // More variables of the template: a JSON object, or "". Their texts are literal.
  std::string template_kwargs_json = {};
  // The functions that the model may call: JSON, a list of {"type","function":{"name",
  // "description","parameters"}} in this order; "" = none. Their texts are literal.
  std::string tools_json = {};
};

struct RenderedPrompt {
  std::string text;
  std::vector<TextSpan>
      literal;  // sorted; what came from message texts: no control token is recognised there
};

class ChatTemplate {
 public:
  // Finds the template of a checkpoint: chat_template.jinja, chat_template.json or
  // tokenizer_config.json.
  static Result<std::unique_ptr<ChatTemplate>> load(const std::filesystem::path& dir);
  // `bos_token` and `eos_token` are variables of the template.
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string_view source,
                                                     std::string_view bos_token,
                                                     std::string_view eos_token);
  virtual ~ChatTemplate() = default;
  // Thread-safe. raise_exception() of the template comes back as kInvalidArgument with its text.
  virtual Result<RenderedPrompt> render(const ChatInput& input) const = 0;
  // How a model with this template writes its calls.
  virtual const ToolFormat& tool_format() const = 0;
  // With any JSON as context (tests against Jinja2); strings in it are not marked literal.
  virtual Result<std::string> render_json(const nlohmann::json& context) const = 0;
};

}  // namespace hs
