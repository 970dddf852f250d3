// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/translate.h"

#include <coda/error.h>

#include <vector>

#include "cuda/runtime/entry.h"
#include "cuda/runtime/ptxas.h"

namespace coda::cuda {
namespace {

struct Session {
  const Nvrtc& nvrtc;
  const std::string& name;
  NvrtcProgram program = nullptr;

  Session(const Nvrtc& nvrtc, const std::string& name) : nvrtc(nvrtc), name(name) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (program != nullptr) nvrtc.nvrtcDestroyProgram(&program);
  }

  void check(NvrtcResult status, const char* call) const {
    if (status != 0)
      throw Error(ErrorKind::unsupported, "[" + name + "] compile",
                  std::string("success of ") + call, nvrtc.nvrtcGetErrorString(status),
                  "see that memory suffices and NVRTC fits coda: " + nvrtc.library.path);
  }

  using Size = NvrtcResult (*)(NvrtcProgram, size_t*);
  using Get = NvrtcResult (*)(NvrtcProgram, char*);
  std::string fetch(Size size, Get get, const char* call) const {
    size_t bytes = 0;
    check(size(program, &bytes), call);
    std::string result(bytes, '\0');
    if (bytes > 0) check(get(program, result.data()), call);
    return result;
  }
  /// The same for text, without the zero at its end.
  std::string fetch_text(Size size, Get get, const char* call) const {
    std::string text = fetch(size, get, call);
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }
};

Translation translate_once(const Nvrtc& nvrtc, const std::string& name, const std::string& text,
                           std::span<const std::string> flags, bool with_ptx) {
  Session session(nvrtc, name);
  const std::string file = name + ".cu";
  session.check(
      nvrtc.nvrtcCreateProgram(&session.program, text.c_str(), file.c_str(), 0, nullptr, nullptr),
      "nvrtcCreateProgram");
  std::vector<const char*> options;
  for (const std::string& flag : flags) options.push_back(flag.c_str());
  const NvrtcResult status =
      nvrtc.nvrtcCompileProgram(session.program, static_cast<int>(options.size()), options.data());
  if (status != kNvrtcCompilationFailed) session.check(status, "nvrtcCompileProgram");

  Translation result;
  result.compiled = status == 0;
  result.log = session.fetch_text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog,
                                  "nvrtcGetProgramLog");
  if (!result.compiled) return result;
  result.image = session.fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, "nvrtcGetCUBIN");
  if (with_ptx)
    result.ptx = session.fetch_text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, "nvrtcGetPTX");
  return result;
}

}  // namespace

Translation translate(const Nvrtc& nvrtc, const std::string& name, const std::string& text,
                      std::span<const std::string> flags, bool with_ptx) {
  Translation result = translate_once(nvrtc, name, text, flags, with_ptx);
  if (!result.compiled || !parse_ptxas_log(result.log).empty()) return result;
  // NVRTC took the cubin from a cache of its own and knows no more what ptxas said.
  std::vector<std::string> uncached(flags.begin(), flags.end());
  uncached.emplace_back("--no-cache");
  return translate_once(nvrtc, name, text, uncached, with_ptx);
}

std::string encode(const Translation& translation) {
  std::string bytes;
  append_string(bytes, translation.compiled ? "1" : "0");
  append_string(bytes, translation.log);
  append_string(bytes, translation.image);
  return bytes;
}

std::optional<Translation> decode_translation(std::string_view bytes) {
  const auto compiled = take_string(bytes), log = take_string(bytes), image = take_string(bytes);
  if (!compiled || !log || !image || !bytes.empty()) return std::nullopt;
  return Translation{*compiled == "1", std::string(*log), std::string(*image), {}};
}

}  // namespace coda::cuda
