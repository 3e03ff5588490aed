"""The base of cuDF's frames."""


class Frame:
    pass
