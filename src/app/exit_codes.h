// What the program's exit status means.
#pragma once

namespace hs {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;      // the command line is wrong
inline constexpr int kExitBadData = 65;   // bytes without the hash they should have (EX_DATAERR)
inline constexpr int kExitNotFound = 66;  // a named model is not there (EX_NOINPUT)
inline constexpr int kExitUnavailable =
    69;                                  // something outside is not there (sysexits EX_UNAVAILABLE)
inline constexpr int kExitNoSpace = 73;  // the disk is full (EX_CANTCREAT)
inline constexpr int kExitNoAccess = 77;  // a token or key is missing or wrong (EX_NOPERM)
inline constexpr int kExitConfig =
    78;  // a setting or the model is wrong; a restart changes nothing (EX_CONFIG)

inline constexpr int kExitInterrupted = 130;  // by SIGINT or SIGTERM

}  // namespace hs
