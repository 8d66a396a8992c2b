#include "server/http/http_front.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/http/explorer_files.h"
#include "server/http/http_error.h"
#include "server/http/request_target.h"

namespace attn {
namespace {

constexpr int kNoContent = 204;
constexpr int kNotModified = 304;
constexpr int kUnavailable = 503;
constexpr char kIndex[] = "index.html";
constexpr absl::string_view kExplorer = "/explorer/";
constexpr char kStory[] = "/explorer/story";
// Nothing is loaded from elsewhere, nor is the page framed by another.
constexpr char kContentPolicy[] =
    "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

HttpResponse Text(int status, const char* text) {
  return {.status = status,
          .headers = {{"Content-Type", "text/plain; charset=utf-8"},
                      {"Cache-Control", "no-store"}},
          .body = absl::StrCat(text, "\n")};
}

HttpResponse FileResponse(const ExplorerFile& file,
                          const HttpRequest& request) {
  HttpResponse response;
  response.headers = {{"ETag", file.etag},
                      // It is asked each time whether the file is another.
                      {"Cache-Control", "no-cache"},
                      {"Vary", "Accept-Encoding"},
                      {"Content-Security-Policy", kContentPolicy},
                      {"Referrer-Policy", "no-referrer"}};
  if (request.Header("if-none-match") == file.etag) {
    response.status = kNotModified;
    return response;
  }
  response.headers.emplace_back("Content-Type", file.content_type);
  if (absl::StrContains(request.Header("accept-encoding"), "gzip")) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = file.gzip;
  } else {
    response.body = std::string(file.bytes);
  }
  return response;
}

HttpResponse PageResponse(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") {
    return WrongMethod(request.method, "GET, HEAD");
  }
  absl::string_view name = request.path;
  if (name == "/") name = kIndex;
  absl::ConsumePrefix(&name, kExplorer);
  const ExplorerFile* file = FindExplorerFile(name);
  if (file == nullptr) {
    return ErrorResponse(absl::NotFoundError(
        absl::StrCat("path: got ", request.path,
                     ", expected /, /explorer/NAME, /v1/..., /healthz or "
                     "/readyz")));
  }
  return FileResponse(*file, request);
}

bool IsPreflight(const HttpRequest& request) {
  return request.method == "OPTIONS" &&
         !request.Header("access-control-request-method").empty();
}

// Adds to every answer what all of them have.
class MarkedExchange final : public HttpExchange {
 public:
  MarkedExchange(std::shared_ptr<HttpExchange> exchange, std::string origin)
      : exchange_(std::move(exchange)), origin_(std::move(origin)) {}

  HttpRequest& request() override { return exchange_->request(); }
  void Respond(HttpResponse response) override {
    response.headers.emplace_back("X-Content-Type-Options", "nosniff");
    if (!origin_.empty()) {
      response.headers.emplace_back("Access-Control-Allow-Origin", origin_);
      response.headers.emplace_back("Vary", "Origin");
    }
    exchange_->Respond(std::move(response));
  }
  void OnGone(std::function<void()> gone) override {
    exchange_->OnGone(std::move(gone));
  }

 private:
  const std::shared_ptr<HttpExchange> exchange_;
  // Empty: none but ours.
  const std::string origin_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpFront>> HttpFront::Start(
    const HttpFrontOptions& options) {
  std::unique_ptr<HttpFront> front(new HttpFront(options));
  auto story = StoryHandler::Make(options.channel);
  if (!story.ok()) return story.status();
  front->story_ = *std::move(story);
  front->gateway_ = std::make_unique<JsonGateway>(JsonGatewayOptions{
      .channel = options.channel,
      .max_answers_bytes = options.listener.max_answers_bytes});
  auto listener = HttpListener::Start(
      options.listener,
      [front = front.get()](std::shared_ptr<HttpExchange> exchange) {
        front->Handle(std::move(exchange));
      });
  if (!listener.ok()) return listener.status();
  front->listener_ = *std::move(listener);
  return front;
}

HttpFront::~HttpFront() { Stop(absl::ZeroDuration()); }

void HttpFront::Stop(absl::Duration patience) {
  if (listener_ == nullptr) return;
  listener_->Stop(patience);
  // They end what they began before what they would answer is gone.
  gateway_.reset();
  story_.reset();
}

const std::string* HttpFront::AllowedOrigin(const HttpRequest& request) const {
  for (const std::string& origin : options_.cors_origins) {
    if (origin == "*" || origin == request.Header("origin")) return &origin;
  }
  return nullptr;
}

bool HttpFront::IsOwnHost(const HttpRequest& request) const {
  const absl::string_view host = request.Header("host");
  // No browser leaves it out.
  if (!options_.local_only || host.empty() || IsLocalHost(host)) return true;
  for (const std::string& origin : options_.cors_origins) {
    if (origin == "*" || origin == absl::StrCat("http://", host) ||
        origin == absl::StrCat("https://", host)) {
      return true;
    }
  }
  return false;
}

HttpResponse HttpFront::Preflight(const HttpRequest& request) const {
  HttpResponse response = Text(kNoContent, "");
  response.body.clear();
  if (AllowedOrigin(request) == nullptr) return response;
  response.headers.emplace_back("Access-Control-Allow-Methods",
                                "GET, POST, PUT, DELETE");
  response.headers.emplace_back(
      "Access-Control-Allow-Headers",
      "Authorization, Content-Type, Grpc-Timeout, Traceparent");
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

void HttpFront::Handle(std::shared_ptr<HttpExchange> exchange) {
  const HttpRequest& request = exchange->request();
  const std::string* origin = AllowedOrigin(request);
  exchange = std::make_shared<MarkedExchange>(
      std::move(exchange),
      request.Header("origin").empty() || origin == nullptr ? "" : *origin);
  if (request.path == "/healthz") return exchange->Respond(Text(200, "ok"));
  if (request.path == "/readyz") {
    return exchange->Respond(options_.serving()
                                 ? Text(200, "serving")
                                 : Text(kUnavailable, "not serving"));
  }
  if (options_.certificates_needed && !request.certified) {
    return exchange->Respond(ErrorResponse(absl::UnauthenticatedError(
        "this server asks for a client certificate")));
  }
  if (!IsOwnHost(request)) {
    return exchange->Respond(ErrorResponse(absl::PermissionDeniedError(
        absl::StrCat("Host: got ", request.Header("host"),
                     ", expected localhost, a numeric address, or the host of "
                     "an origin that --http-cors-origins names"))));
  }
  if (IsPreflight(request)) return exchange->Respond(Preflight(request));
  if (request.path == kStory) return story_->Handle(std::move(exchange));
  if (absl::StartsWith(request.path, "/v1/")) {
    return gateway_->Handle(std::move(exchange));
  }
  exchange->Respond(PageResponse(request));
}

}  // namespace attn
