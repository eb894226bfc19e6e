//! The layer around a gRPC server and a gRPC client.
