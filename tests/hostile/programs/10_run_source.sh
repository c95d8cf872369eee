./source
