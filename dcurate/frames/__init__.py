"""All code that knows pandas, Arrow and cuDF: frame types, and conversions between them."""
