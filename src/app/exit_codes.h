// What the program's exit status means.
#pragma once

namespace hs {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;  // the command line is wrong
inline constexpr int kExitUnavailable =
    69;  // something outside is not there (sysexits EX_UNAVAILABLE)
inline constexpr int kExitConfig =
    78;  // a setting or the model is wrong; a restart changes nothing (EX_CONFIG)

}  // namespace hs
