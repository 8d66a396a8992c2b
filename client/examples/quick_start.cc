// The smallest client: three tokens attend to those before them.
#include <iostream>
#include <string>

#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"
#include "client/library/outputs.h"

int main(int argc, char** argv) {
  const std::string address = argc > 1 ? argv[1] : "127.0.0.1:8001";
  const auto client = attn::AttentionClient::Connect({.address = address});
  if (!client.ok()) return std::cerr << client.status() << "\n", 1;
  // [batch, heads, tokens, features]
  const attn::Shape shape{1, 1, 3, 2};
  const auto q = attn::HostTensor::From<float>(shape, {1, 0, 0, 1, 1, 1});
  const auto k = attn::HostTensor::From<float>(shape, {1, 0, 0, 1, 1, 1});
  const auto v = attn::HostTensor::From<float>(shape, {1, 2, 3, 4, 5, 6});

  attn::AttendMessage message;
  message.args.q = q->view();
  message.args.k = k->view();
  message.args.v = v->view();
  message.spec.masks = {attn::CausalMask{}};
  message.wanted = {.output = true};
  const auto result = client->Attend(message);
  if (!result.ok()) return std::cerr << result.status() << "\n", 1;

  const auto output = attn::OutputOf(*result, "output");
  for (const float x : output->values<float>()) std::cout << x << " ";
  std::cout << "by the kernel " << result->header.report().kernel() << "\n";
}
