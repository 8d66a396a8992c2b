"""The wire: modules that protoc makes of proto/attention/v1.

attention_pb2, layer_pb2 and session_pb2 hold the messages, attention_pb2_grpc,
layer_pb2_grpc and session_pb2_grpc the stubs. They are made when the package is
built and are not kept in the repository.
"""

try:
    from .attention_pb2 import DESCRIPTOR as SCHEMA
except ModuleNotFoundError as error:
    if error.name != f"{__name__}.attention_pb2":
        raise
    raise ModuleNotFoundError(
        "attn_client is not built: pip install ./client/python, or take the one "
        "of the build folder, PYTHONPATH=build/test/python",
        name=error.name,
    ) from None

__all__ = ["SCHEMA"]
