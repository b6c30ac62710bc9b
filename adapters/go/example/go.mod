module workers

go 1.25
