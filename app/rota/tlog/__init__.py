"""The transparency log: C2SP's formats, the files, the signing, and the verifying."""
