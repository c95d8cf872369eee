def greeting() -> str:
    return "{{greeting}}"
