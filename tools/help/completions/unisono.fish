# Completion of unisono in fish. The command itself says what may come next (unisono __complete WORD...); this passes it on.

function __unisono_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -e words[1]
    set -l answer ($program __complete $words "$current" 2>/dev/null)
    set -l what (string split ' ' -- $answer[1])
    set -e answer[1]
    switch "$what[1]"
        case words
            printf '%s\n' $answer
        case files folders
            set -l name (string match -r '^--[^=]*=' -- $current)
            set -l typed (string replace -r '^--[^=]*=' '' -- $current)
            set -l paths
            if test $what[1] = folders
                set paths (__fish_complete_directories $typed)
            else
                set paths (complete -C "'' $typed")
            end
            for path in $paths
                echo "$name$path"
            end
        case program
            set -l line
            for i in (seq $what[2] (count $words))
                set -a line (string escape -- $words[$i])
            end
            complete -C (string join ' ' -- $line $current)
    end
end

complete -c unisono -f -k -a '(__unisono_complete)'
