// SPDX-License-Identifier: Apache-2.0
#include "train/curve_metrics.h"

#include <coda/error.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>

#include "train/atomic_file.h"

namespace coda::train {
namespace {

constexpr std::string_view kHeader =
    "step,tokens,loss,held_out_loss,learning_rate,gradient_norm,tokens_per_second,seconds";

[[noreturn]] void refuse(const std::string& where, std::string_view expected,
                         std::string_view got) {
  throw Error(ErrorKind::io, where, expected, got,
              "check the path, or move the file away: it is only a log");
}

std::string shown(std::string_view line) {
  constexpr size_t longest = 100;
  return "'" + std::string(line.substr(0, longest)) + (line.size() > longest ? "...'" : "'");
}

std::string place(const std::string& path, int64_t line) {
  return path + ":" + std::to_string(line);
}

/// The whole field as a number; NaN and infinity are numbers.
template <class Number>
bool parse(std::string_view field, Number& number) {
  const char* const end = field.data() + field.size();
  const auto [after, error] = std::from_chars(field.data(), end, number);
  return error == std::errc() && after == end;
}

std::optional<Metrics> parse_line(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  if (fields.size() != 8) return std::nullopt;
  Metrics metrics;
  if (!fields[3].empty() && !parse(fields[3], metrics.held_out_loss.emplace())) return std::nullopt;
  const bool valid =
      parse(fields[0], metrics.step) && metrics.step >= 0 && parse(fields[1], metrics.tokens) &&
      parse(fields[2], metrics.loss) && parse(fields[4], metrics.learning_rate) &&
      parse(fields[5], metrics.gradient_norm) && parse(fields[6], metrics.tokens_per_second) &&
      parse(fields[7], metrics.seconds);
  return valid ? std::optional(metrics) : std::nullopt;
}

/// Calls `take` with each whole line below the header: what it says and its text.
void for_each_line(const std::string& path,
                   const std::function<void(const Metrics&, const std::string&)>& take) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string line;
  int64_t number = 0, last_step = -1;
  while (std::getline(file, line)) {
    ++number;
    // A line without its end was cut off.
    if (file.eof() && (number > 1 || kHeader.starts_with(line))) break;
    if (number == 1) {
      if (line != kHeader)
        refuse(place(path, 1), "the header " + std::string(kHeader), shown(line));
      continue;
    }
    const std::optional<Metrics> metrics = parse_line(line);
    if (!metrics) refuse(place(path, number), "8 fields, as the header says", shown(line));
    if (metrics->step <= last_step)
      refuse(place(path, number), "a step above " + std::to_string(last_step),
             std::to_string(metrics->step));
    last_step = metrics->step;
    take(*metrics, line);
  }
  if (file.bad() || !file.eof())
    refuse(path, "a file that can be read", errno != 0 ? std::strerror(errno) : "no data");
}

}  // namespace

std::vector<Metrics> read_metrics(const std::string& path) {
  std::vector<Metrics> result;
  for_each_line(path,
                [&](const Metrics& metrics, const std::string&) { result.push_back(metrics); });
  return result;
}

MetricsFile::MetricsFile(std::string path, int64_t last_step) : path_(std::move(path)) {
  std::string text = std::string(kHeader) + "\n";
  std::error_code error;
  if (std::filesystem::status(path_, error).type() != std::filesystem::file_type::not_found)
    for_each_line(path_, [&](const Metrics& metrics, const std::string& line) {
      if (metrics.step > last_step) return;
      text += line + "\n";
      last_step_ = metrics.step;
    });
  AtomicFile file(path_);
  file.write(text);
  file.commit();
  descriptor_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) refuse(path_, "a file that can be written", std::strerror(errno));
}

MetricsFile::~MetricsFile() { close(descriptor_); }

void MetricsFile::append(const Metrics& metrics) {
  if (metrics.step <= last_step_)
    throw Error(ErrorKind::argument, path_, "a step above " + std::to_string(last_step_),
                std::to_string(metrics.step), "append every step once");
  // Nine digits tell all float32 apart.
  const std::string held_out =
      metrics.held_out_loss ? fmt::format("{:.9g}", *metrics.held_out_loss) : "";
  const std::string line =
      fmt::format("{},{},{:.9g},{},{:.9g},{:.9g},{:.9g},{:.9g}\n", metrics.step, metrics.tokens,
                  metrics.loss, held_out, metrics.learning_rate, metrics.gradient_norm,
                  metrics.tokens_per_second, metrics.seconds);
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw Error(ErrorKind::io, path_, "room for a line", std::strerror(errno),
                  "make room and resume the run");
    rest.remove_prefix(static_cast<size_t>(written));
  }
  last_step_ = metrics.step;
}

}  // namespace coda::train
