"""What differs between CPU, CUDA and HPU: memory, compilation and graphs."""
