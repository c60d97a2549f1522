#!/usr/bin/env python3
"""dsrun embed --image: pictures become what the published processing makes.

    image_files.py DSCOMPILE DSRUN

The golden pictures through the golden CLIP: the features of each file are those
of its golden pixels fed as numbers. Damaged files end in one line.
"""
import json
import math
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import (CASES, Checks, Scratch, read_tensors, run,  # noqa: E402
                     write_tensors)

IMAGES = os.path.join(CASES, 'images')


def unit(values):
    length = math.sqrt(sum(v * v for v in values))
    return [v / length for v in values]


def cosine(a, b):
    return sum(x * y for x, y in zip(unit(a), unit(b)))


def check_older_sections(c, dscompile, dsrun, source, picture, tmp):
    """text_config_dict takes the place of text_config, if it is there."""
    folder = shutil.copytree(source, os.path.join(tmp, 'older'))
    path = os.path.join(folder, 'config.json')
    with open(path, encoding='utf-8') as f:
        config = json.load(f)
    for section in ('text_config', 'vision_config'):
        config[section + '_dict'] = config[section]
        config[section] = {**config[section], 'num_attention_heads': 1}
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(config, f)
    shutil.move(os.path.join(folder, 'preprocessor_config.json'),
                os.path.join(tmp, 'alone.json'))
    # As newer files keep it.
    with open(os.path.join(tmp, 'alone.json'), encoding='utf-8') as f:
        processor = {'image_processor': json.load(f)}
    with open(os.path.join(folder, 'processor_config.json'), 'w',
              encoding='utf-8') as f:
        json.dump(processor, f)
    feed = os.path.join(tmp, 'older-text')
    gold = read_tensors(os.path.join(source, 'golden.safetensors'))
    write_tensors(feed, {'input_ids': ('I64', *gold['input_ids'])})
    got = []
    for s in (source, folder):
        plan, out = os.path.join(tmp, 'p'), os.path.join(tmp, 'text-out')
        r = run(dscompile, s, '-o', plan, '--force')
        c.check(r.returncode == 0, 'compile older sections', r.stderr)
        r = run(dsrun, 'embed', plan, '--image', picture)
        c.check(r.returncode == 0, 'older sections: picture', r.stderr)
        picture_embeds = json.loads(r.stdout)['data']
        r = run(dsrun, plan, '--feed', feed, '--fetch', out)
        c.check(r.returncode == 0, 'older sections: text', r.stderr)
        got.append((picture_embeds, read_tensors(out)))
    c.check(got[0] == got[1], 'older sections', 'other embeddings')


def main():
    dscompile, dsrun = sys.argv[1:3]
    with Scratch() as tmp:
        c = Checks()
        source = os.path.join(tmp, 'clip')
        shutil.copytree(os.path.join(CASES, 'models', 'clip'), source)
        shutil.copy(os.path.join(IMAGES, 'preprocessor_config.json'), source)
        plan = os.path.join(tmp, 'plan')
        r = run(dscompile, source, '-o', plan)
        c.check(r.returncode == 0, 'compile', r.stderr)

        pixels = read_tensors(os.path.join(IMAGES, 'golden.safetensors'))
        names = sorted(pixels)
        feed, out = os.path.join(tmp, 'feed'), os.path.join(tmp, 'out')
        size = pixels[names[0]][0][-1]
        write_tensors(feed, {'pixel_values': (
            'F32', [len(names), 3, size, size],
            [v for n in names for v in pixels[n][1]])})
        r = run(dsrun, plan, '--feed', feed, '--fetch', out)
        c.check(r.returncode == 0, 'feed pixels', r.stderr)
        shape, want = read_tensors(out)['image_embeds']
        paths = [os.path.join(IMAGES, n) for n in names]
        flags = [w for p in paths for w in ('--image', p)]
        r = run(dsrun, 'embed', plan, *flags)
        c.check(r.returncode == 0, 'embed', r.stderr)
        data = json.loads(r.stdout)['data']
        c.check([d['image'] for d in data] == paths, 'the files, in order',
                r.stdout)
        for i, name in enumerate(names):
            row = want[i * shape[1]:(i + 1) * shape[1]]
            got = cosine(data[i]['embedding'], row)
            # JPEG decoders differ by a unit here and there.
            least = 0.999 if name.endswith('.jpg') else 0.9999
            c.check(got >= least, f'{name}: as of its golden pixels', got)
        others = {round(d['embedding'][0], 4) for d in data}
        c.check(len(others) > 3, 'pictures differ', others)

        def refused(title, words, *args):
            r = run(dsrun, 'embed', *args)
            c.check(r.returncode != 0 and r.stdout == '' and
                    r.stderr.count('\n') == 1 and
                    all(w in r.stderr for w in words), title,
                    (r.returncode, r.stdout, r.stderr))

        def damaged(name, data):
            path = os.path.join(tmp, name)
            with open(path, 'wb') as f:
                f.write(data)
            return path

        for name in ('wide.png', 'wide.jpg'):
            with open(os.path.join(IMAGES, name), 'rb') as f:
                whole = f.read()
            path = damaged('cut-' + name, whole[:len(whole) // 2])
            refused('cut ' + name, ['cut-' + name, 'that can be read'], plan,
                    '--image', path)
        refused('no picture', ['neither PNG nor JPEG'], plan, '--image',
                damaged('a.png', b'GIF89a'))
        refused('no file', ['none.png'], plan, '--image',
                os.path.join(tmp, 'none.png'))
        refused('with a text', ['--image'], plan, '--image', paths[0], '-p',
                'a')
        refused('--no-normalize', ['--no-normalize'], plan, '--image', paths[0],
                '--no-normalize')
        # Weights that are made up are all there.
        r = run(dscompile, os.path.join(source, 'config.json'),
                '--random-weights', 1, '-o', os.path.join(tmp, 'made-up'))
        c.check(r.returncode == 0, '--random-weights', r.stderr)
        check_older_sections(c, dscompile, dsrun, source, paths[0], tmp)
        # Of other plans.
        text = os.path.join(tmp, 'text')
        r = run(dscompile, os.path.join(CASES, 'models', 'bert-qa'), '-o', text)
        c.check(r.returncode == 0, 'compile bert', r.stderr)
        refused('bert', ['takes no images'], text, '--image', paths[0])
        # The size that the model takes is another.
        with open(os.path.join(source, 'preprocessor_config.json'),
                  encoding='utf-8') as f:
            config = json.load(f)
        config['crop_size'] = {'height': 10, 'width': 10}
        with open(os.path.join(source, 'preprocessor_config.json'), 'w',
                  encoding='utf-8') as f:
            json.dump(config, f)
        r = run(dscompile, source, '-o', os.path.join(tmp, 'small'))
        if r.returncode == 0:
            refused('crop', ['10 x 10', '12 x 12'], os.path.join(tmp, 'small'),
                    '--image', paths[0])
        else:
            c.check('preprocessor_config.json' in r.stderr, 'crop', r.stderr)
    c.finish()


main()
