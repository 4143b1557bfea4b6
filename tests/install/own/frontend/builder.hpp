#error "Braid includes a header of the program that uses it"
