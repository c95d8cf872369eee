cat out link /box/dir/link; echo x > out
