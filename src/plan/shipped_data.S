// The data files that come with the program, byte for byte (shipped_data.h).
    .section .rodata
    .global hs_shipped_cards
    .global hs_shipped_cards_end
    .global hs_shipped_models
    .global hs_shipped_models_end
hs_shipped_cards:
    .incbin "cards.toml"
hs_shipped_cards_end:
hs_shipped_models:
    .incbin "models.toml"
hs_shipped_models_end:
    .section .note.GNU-stack,"",%progbits
